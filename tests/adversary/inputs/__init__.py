"""Hostile inputs: objects that a tenant may create and a real kube-apiserver admits.

One builder per row, by what it attacks: `placement` has where pods want to be, `consumption` what
they ask for, `devices` which devices, `contents` what they are full of. `table` says what a row
consists of.
"""

from tests.adversary.inputs import consumption, contents, devices, placement  # noqa: F401
from tests.adversary.inputs.table import (
    INNOCENT,
    NAMESPACE,
    TABLE,
    TENANT,
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
    "SELECTION",
    "TENANT",
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
# One of each kind of harm: a decision that lasts, a daemon that ends, other pods that pay, columns
# and caches that grow.
SELECTION = (
    "spread-absent-keys",
    "nested-opaque-parameters",
    "running-anti-affinity-absent-keys",
    "extended-resources-zero",
    "annotations",
)
