"""Objects by kind and key."""

from kscheduler.api.core import Namespace, Service
from kscheduler.api.meta import ObjectMeta
from kscheduler.framework.listers import FixedListers

SERVICE = Service(metadata=ObjectMeta(name="web", namespace="shop"))
NAMESPACE = Namespace(metadata=ObjectMeta(name="shop"))


def test_objects_are_found_by_kind_and_key():
    listers = FixedListers([SERVICE, NAMESPACE])
    assert listers.lister(Service).get("shop/web") is SERVICE
    assert listers.lister(Namespace).get("shop") is NAMESPACE
    assert listers.lister(Service).get("shop") is None
    assert list(listers.lister(Service).items()) == [SERVICE]


def test_a_kind_without_objects_is_empty():
    assert list(FixedListers().lister(Service).items()) == []
