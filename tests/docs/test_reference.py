"""The reference pages say what the code does."""

import importlib.util
from pathlib import Path

import pytest

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"

spec = importlib.util.spec_from_file_location("generate", REFERENCE / "generate.py")
assert spec is not None
assert spec.loader is not None
generate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generate)


@pytest.mark.parametrize("page", generate.PAGES)
def test_a_reference_page_is_what_the_code_makes_of_it(page: str):
    assert (REFERENCE / page).read_text() == generate.render(page), "run: make docs"


def test_every_field_of_the_configuration_is_explained_and_no_other():
    args = generate.ARGS
    kinds = generate.types_of(generate.KubeSchedulerConfiguration, *args)

    unexplained = {
        kind.__name__: {name for name, field in generate.fields_of(kind) if not field.description}
        for kind in kinds
    }
    assert {kind: names for kind, names in unexplained.items() if names} == {
        kind: set(fields) for kind, fields in generate.MEANINGS.items()
    }
    assert {kind.__name__ for kind in args} <= {kind.__name__ for kind in kinds}
