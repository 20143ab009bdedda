"""Every recorded decision of kube-scheduler, family by family."""

import pytest

from tests.parity import records, run, variants

FAMILIES = {path.name.split(".")[0]: path for path in sorted(run.VECTORS.glob("*.jsonl.*"))}
DEVICES = [family for family in FAMILIES if family.startswith("dra")]
LARGE = [family for family, path in FAMILIES.items() if path.suffix == ".xz"]


@pytest.mark.parametrize("family", FAMILIES)
def test_recorded_decisions_are_reproduced(family):
    replayed = run.replay_family(FAMILIES[family], every=5 if family in LARGE else 1)
    assert not replayed.mismatches, "\n".join(replayed.report())


@pytest.mark.slow
@pytest.mark.parametrize("family", LARGE)
def test_every_decision_of_a_large_family_is_reproduced(family):
    replayed = run.replay_family(FAMILIES[family])
    assert not replayed.mismatches, "\n".join(replayed.report())


@pytest.mark.slow
@pytest.mark.parametrize("variant", variants.VARIANTS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("family", DEVICES)
def test_decisions_do_not_depend_on_what_should_not_matter(family, variant):
    found = variants.differences(FAMILIES[family], variant, every=5)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("family", FAMILIES)
def test_explanations_of_recorded_decisions_are_true(family):
    explained, found = records.differences(FAMILIES[family], every=10 if family in LARGE else 4)
    assert explained
    assert not found, "\n".join(found)
