"""All of a gang, or none of it."""

from gang import GANG, SIZE, Gang

from kscheduler.framework import Code, Status, Wait, rejected_for_good
from kscheduler.testing import Stage, make_node, make_pod

NODES = [make_node("n1"), make_node("n2")]


def member(name, *, gang="g", size="3"):
    return make_pod(name, labels={GANG: gang, SIZE: size})


def test_a_pod_without_a_gang_does_not_wait():
    assert Stage(Gang, nodes=NODES).permit(make_pod("p"), "n1") is None


def test_the_last_one_frees_all():
    stage = Stage(Gang, nodes=NODES)
    assert stage.permit(member("a"), "n1") == Wait(60.0)
    assert stage.permit(member("b"), "n2") == Wait(60.0)
    assert stage.waiting() == {"default/a": None, "default/b": None}
    assert stage.permit(member("c"), "n1") is None
    assert stage.waiting() == {
        "default/a": Status(Code.SUCCESS),
        "default/b": Status(Code.SUCCESS),
    }
    assert stage.events == [
        ("default/c", "Normal", "GangComplete", "All 3 pods of g have a node"),
    ]


def test_gangs_do_not_mix():
    stage = Stage(Gang, nodes=NODES)
    stage.permit(member("a", size="2"), "n1")
    assert stage.permit(member("b", gang="other", size="2"), "n2") == Wait(60.0)


def test_one_that_gives_up_takes_the_others_along():
    stage = Stage(Gang, nodes=NODES, args={"waitSeconds": 5})
    stage.permit(member("a"), "n1")
    stage.pass_time(4)
    stage.permit(member("b"), "n2")
    stage.pass_time(2)
    late = "rejected due to timeout after waiting 5s at plugin Gang"
    assert stage.waiting()["default/a"] == Status(Code.UNSCHEDULABLE, (late,), "Gang")
    stage.unreserve(member("a"), "n1")
    along = "pod default/a of gang g gave up"
    assert stage.waiting()["default/b"] == Status(Code.UNSCHEDULABLE, (along,), "Gang")


def test_a_size_that_is_none_keeps_the_pod_out_of_the_queue():
    status = Stage(Gang).pre_enqueue(member("a", size="many"))
    assert status == rejected_for_good(f"label {SIZE} must be a positive number")
