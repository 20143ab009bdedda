"""Flags about metrics: allowed label values in a file, and what all flags select."""

import pytest

from kscheduler.config.metric_options import metric_selection, read_manifest
from kscheduler.config.options import Options
from kscheduler.metrics import EVERYTHING, Selection


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("m,l: a,b\n", {"m,l": "a,b"}),
        ('{"m,l": 5}', {"m,l": "5"}),
        ("m,l: a\n---\nn,l: b\n", {"m,l": "a"}),
        ("m,l: a\n--- [\n", {"m,l": "a"}),
        ("m,l: ~\n", {"m,l": ""}),
        ("", {}),
    ],
    ids=["YAML", "JSON", "first document", "broken second document", "null", "empty"],
)
def test_labels_of_a_manifest(tmp_path, text, labels):
    file = tmp_path / "labels"
    file.write_text(text)
    assert read_manifest(str(file)) == labels


ALLOWED = {"a_total": {"x": frozenset({"1", "2"}), "y": frozenset({"3"})}}


@pytest.mark.parametrize(
    ("options", "want"),
    [
        pytest.param(Options(), EVERYTHING, id="nothing said"),
        pytest.param(
            Options(disabled_metrics=("a", "b", "")),
            Selection(disabled=frozenset({"a", "b"})),
            id="disabled",
        ),
        pytest.param(
            Options(show_hidden_metrics_for_version="1.36"),
            Selection(shows_hidden=True),
            id="hidden ones shown",
        ),
        pytest.param(
            Options(allow_metric_labels={"a_total,x": "1,2", "a_total,y": "3"}),
            Selection(allowed_values=ALLOWED),
            id="labels",
        ),
    ],
)
def test_flags_choose_metrics(options, want):
    assert metric_selection(options) == want


def test_labels_can_stand_in_a_manifest(tmp_path):
    manifest = tmp_path / "labels.yaml"
    manifest.write_text('"a_total,x": "1,2"\n"a_total,y": "3"\n')
    options = Options(allow_metric_labels_manifest=str(manifest))
    assert metric_selection(options) == Selection(allowed_values=ALLOWED)
