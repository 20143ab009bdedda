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


def test_objects_are_found_by_what_an_index_says_of_them():
    services = FixedListers([SERVICE]).lister(Service)
    services.add_index("namespace", lambda service: [service.namespace])
    assert services.by_index("namespace", "shop") == [SERVICE]
    assert services.by_index("namespace", "other") == []


def test_a_handler_hears_of_what_is_known_already():
    class Handler:
        def on_add(self, item, *, is_initial):
            heard.append((item, is_initial))

    heard = []
    FixedListers([SERVICE]).lister(Service).add_handler(Handler())
    assert heard == [(SERVICE, True)]
