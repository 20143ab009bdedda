"""Hostile inputs: objects that a tenant may create and a real kube-apiserver admits.

One builder per row, by what it attacks: `placement` has where pods want to be, `consumption` what
they ask for, `contents` what they are full of. `table` says what a row consists of.
"""

from tests.adversary.inputs import consumption, contents, placement  # noqa: F401
from tests.adversary.inputs.table import (
    INNOCENT,
    NAMESPACE,
    TABLE,
    Ask,
    Hostile,
    Json,
    Scene,
    encoded,
    pod,
)

__all__ = [
    "INNOCENT",
    "NAMESPACE",
    "ROWS",
    "Ask",
    "Hostile",
    "Json",
    "Scene",
    "encoded",
    "feature_labels",
    "pod",
]

feature_labels = placement.feature_labels
ROWS: dict[str, Hostile] = TABLE.rows
