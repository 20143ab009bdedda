"""What of the cluster is kept for extenders, and whom they trust."""

import pytest

from kscheduler.api.core import Node, Pod, PodSpec
from kscheduler.app.extenders import objects_to_keep_whole, tls_of
from kscheduler.config.model import Extender, ExtenderTLSConfig

PENDING, BOUND = Pod(), Pod(spec=PodSpec(node_name="n1"))


def extender(**fields):
    return Extender.model_construct(**fields)


@pytest.mark.parametrize(
    ("extenders", "kept"),
    [
        pytest.param([], (False, False, False), id="no extenders"),
        pytest.param([extender(bind_verb="b")], (False, False, False), id="one that binds"),
        pytest.param(
            [extender(filter_verb="f", node_cache_capable=True)],
            (True, False, False),
            id="one that knows the nodes",
        ),
        pytest.param(
            [extender(prioritize_verb="p")], (True, False, True), id="one that does not know them"
        ),
        pytest.param(
            [extender(preempt_verb="p", node_cache_capable=True)],
            (True, False, False),
            id="one that preempts, and knows the pods",
        ),
        pytest.param([extender(preempt_verb="p")], (True, True, False), id="one that does not"),
        pytest.param(
            [
                extender(preempt_verb="p", node_cache_capable=True),
                extender(filter_verb="f"),
            ],
            (True, False, True),
            id="two of a different kind",
        ),
    ],
)
def test_no_more_is_kept_than_somebody_is_told(extenders, kept):
    keep = objects_to_keep_whole(extenders)
    pods, nodes = keep.get(Pod, lambda _: False), keep.get(Node, lambda _: False)
    assert (pods(PENDING), pods(BOUND), nodes(Node())) == kept


@pytest.mark.parametrize(
    ("fields", "insecure"),
    [
        pytest.param({}, False, id="as the URL says"),
        pytest.param({"enable_https": True}, True, id="HTTPS without an authority"),
        pytest.param(
            {"enable_https": True, "tls_config": ExtenderTLSConfig(ca_data=b"pem")},
            False,
            id="HTTPS with one",
        ),
        pytest.param({"tls_config": ExtenderTLSConfig(insecure=True)}, True, id="as told"),
    ],
)
def test_whom_to_trust(fields, insecure):
    assert tls_of(extender(**fields)).insecure is insecure


@pytest.mark.parametrize(
    ("fields", "used"),
    [
        ({"cert_data": b"c", "key_file": "k"}, True),
        ({"cert_file": "c"}, False),
        ({"key_data": b"k"}, False),
    ],
    ids=["a pair", "a certificate alone", "a key alone"],
)
def test_only_pairs_of_certificate_and_key_are_used(fields, used):
    tls = tls_of(extender(tls_config=ExtenderTLSConfig(**fields)))
    assert tls.has_certificate is used
