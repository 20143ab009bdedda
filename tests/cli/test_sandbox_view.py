"""What the picture of a sandbox says about devices."""

from types import SimpleNamespace

import pytest

from kscheduler.api.decode import convert
from kscheduler.api.resource import ResourceClaim, ResourceSlice
from kscheduler.cli import sandbox_view
from kscheduler.cli.sandbox_view import View
from kscheduler.framework.listers import FixedLister
from tests.kit.devices import allocation, claim_manifest, slice_manifest


@pytest.fixture
def view():
    """A view of two nodes with two devices each, of which a claim has both of the second."""
    slices = [convert(slice_manifest(node, devices=2), ResourceSlice) for node in ("n1", "n2")]
    taken = claim_manifest("c") | {"status": {"allocation": allocation("n2", "gpu-1", "gpu-0")}}
    claims = [convert(manifest, ResourceClaim) for manifest in (taken, claim_manifest("d"))]
    listers = {
        kind: FixedLister({one.key: one for one in objects})
        for kind, objects in ((ResourceSlice, slices), (ResourceClaim, claims))
    }
    pods = SimpleNamespace(add_handler=lambda handler: None)
    informers = SimpleNamespace(pods=pods, lister=listers.__getitem__)
    return View(SimpleNamespace(informers=informers))


def test_devices_are_counted_and_named_by_node(view):
    found = view.devices_by_node()
    assert {node: str(there) for node, there in found.items()} == {
        "n1": "0/2",
        "n2": "2/2 gpu-0 gpu-1",
    }


def test_too_many_devices_are_not_looked_at(view, monkeypatch):
    monkeypatch.setattr(sandbox_view, "COUNTED_OBJECTS", 3)
    assert view.devices_by_node() == {}
