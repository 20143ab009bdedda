"""The special claim: requests for a pod's extended resources, and the containers that use them."""

import pytest

from kscheduler.plugins.dynamic_resources.extended_resources import requests_and_mappings
from tests.plugins.topologies import make_pod

GPU, FPGA = "example.com/gpu", "example.com/fpga"
CLASSES = {GPU: "gpu", FPGA: "fpga"}


def container(name, restart=None, **amounts):
    """Amounts of `gpu` and `fpga`; besides, every container asks for cpu."""
    requests = {"cpu": "1"} | {CLASS_OF[short]: str(n) for short, n in amounts.items()}
    return {"name": name, "resources": {"requests": requests}, "restartPolicy": restart}


CLASS_OF = {"gpu": GPU, "fpga": FPGA}


def asked(*containers, init=()):
    """Requests as `name: class x count`, and mappings as `container resource request`."""
    pod = make_pod(containers=list(containers), initContainers=list(init))
    requests, mappings = requests_and_mappings(pod.pod, CLASSES)
    told = {
        one.name: f"{one.exactly.device_class_name} x {one.exactly.count}"
        for one in requests
        if one.exactly is not None
    }
    short = {GPU: "gpu", FPGA: "fpga"}
    used = [f"{m.container_name} {short[m.resource_name]} {m.request_name}" for m in mappings]
    assert list(told) == sorted(told)
    return told, used


def test_every_container_gets_a_request_of_its_own():
    assert asked(container("a", gpu=1), container("b", gpu=2, fpga=1), container("c")) == (
        {
            "container-0-request-1": "gpu x 1",
            "container-1-request-1": "fpga x 1",
            "container-1-request-2": "gpu x 2",
        },
        [
            "b fpga container-1-request-1",
            "a gpu container-0-request-1",
            "b gpu container-1-request-2",
        ],
    )


def test_an_init_container_uses_devices_of_containers_that_start_later():
    assert asked(container("a", gpu=2), init=[container("i", gpu=1)]) == (
        {"container-1-request-1": "gpu x 2"},
        ["a gpu container-1-request-1", "i gpu container-1-request-1"],
    )


def test_an_init_container_asks_for_what_others_do_not_have():
    assert asked(container("a", gpu=1), init=[container("i", gpu=3)]) == (
        {"container-0-request-1": "gpu x 2", "container-1-request-1": "gpu x 1"},
        [
            "a gpu container-1-request-1",
            "i gpu container-1-request-1",
            "i gpu container-0-request-1",
        ],
    )


def test_of_several_init_containers_the_neediest_asks_for_all():
    told, used = asked(
        container("a"), init=[container("i", gpu=1), container("j", gpu=3), container("k", gpu=3)]
    )
    assert told == {"container-1-request-1": "gpu x 3"}
    assert used == [f"{one} gpu container-1-request-1" for one in "ijk"]


def test_a_sidecar_keeps_its_devices_and_lends_them_to_containers_before_it():
    told, used = asked(
        container("a"),
        init=[container("i", gpu=1), container("s", "Always", gpu=1), container("j", gpu=1)],
    )
    assert told == {"container-1-request-1": "gpu x 1", "container-2-request-1": "gpu x 1"}
    assert used == [
        "s gpu container-1-request-1",
        "i gpu container-1-request-1",
        "j gpu container-2-request-1",
    ]


@pytest.mark.parametrize("amount", ["0", "500m"])
def test_amounts_that_are_no_number_of_devices_ask_for_nothing(amount):
    odd = {"name": "a", "resources": {"requests": {GPU: amount}}}
    assert asked(odd) == ({}, [])
