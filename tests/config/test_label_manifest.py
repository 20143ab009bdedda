"""Allowed label values in a file."""

import pytest

from kscheduler.config.label_manifest import read_manifest


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
