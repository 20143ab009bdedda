import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.state.host_ports import HostPort, HostPorts, any_ports_conflict
from tests.adversary.work import work_of

ANY = "0.0.0.0"


def port(ip=ANY, number=80, protocol="TCP"):
    return HostPort(ip, protocol, number)


CONFLICTS = [
    pytest.param(port(), port("127.0.0.1"), True, id="any address wanted, one used"),
    pytest.param(port("127.0.0.1"), port(), True, id="one wanted, any used"),
    pytest.param(port("127.0.0.1"), port("127.0.0.1"), True, id="the same address"),
    pytest.param(port("127.0.0.1"), port("127.0.0.2"), False, id="another address"),
    pytest.param(port(protocol="UDP"), port(), False, id="another protocol"),
    pytest.param(port(number=81), port(), False, id="another port"),
    pytest.param(port("::"), port("::1"), False, id="no wildcard in IPv6"),
]


@pytest.mark.parametrize(("wanted", "used", "conflict"), CONFLICTS)
def test_conflicts(wanted, used, conflict):
    ports = HostPorts()
    ports.add(used, 3)
    assert any_ports_conflict([wanted], [used]) is conflict
    assert ports.conflicting(wanted) == (1 << 3 if conflict else 0)


def test_rows_of_all_addresses_conflict_with_any():
    ports = HostPorts()
    ports.add(port("10.0.0.1"), 0)
    ports.add(port("10.0.0.2"), 2)
    assert ports.conflicting(port()) == 0b101


def test_a_port_held_twice_is_free_after_one_removal():
    ports = HostPorts()
    ports.add(port(), 1)
    ports.add(port(), 1)
    ports.remove(port(), 1)
    assert ports.conflicting(port()) == 0


def test_removing_what_is_not_there_changes_nothing():
    ports = HostPorts()
    ports.add(port(), 1)
    ports.remove(port("10.0.0.1"), 1)
    ports.remove(port(number=1), 1)
    assert ports.conflicting(port()) == 0b10


def test_a_fork_is_on_its_own():
    ports = HostPorts()
    ports.add(port(), 0)
    twin = ports.what_if()
    twin.add(port(), 1)
    twin.remove(port(), 0)
    assert (ports.conflicting(port()), twin.conflicting(port())) == (0b01, 0b10)


steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "remove", "fork", "leave"]),
        st.sampled_from([ANY, "10.0.0.1", "10.0.0.2"]),
        st.sampled_from([80, 81]),
        st.integers(0, 3),
    ),
    max_size=30,
)


@given(steps)
def test_any_sequence_of_changes_and_forks_gives_what_sets_give(taken):
    """Changes go to the innermost fork; after leaving one, its base is as it was."""
    stack = [(HostPorts(), frozenset())]
    for step, ip, number, row in taken:
        ports, model = stack[-1]
        if step == "fork":
            stack.append((ports.what_if(), model))
        elif step == "leave":
            stack = stack[:-1] if len(stack) > 1 else stack
        else:
            change = {(ip, number, row)}
            getattr(ports, step)(port(ip, number), row)
            stack[-1] = ports, model | change if step == "add" else model - change
    ports, model = stack[-1]
    for wanted in (ANY, "10.0.0.1", "10.0.0.3"):
        for number in (80, 81):
            rows = {
                row
                for ip, used, row in model
                if used == number and (ANY in (ip, wanted) or ip == wanted)
            }
            assert ports.conflicting(port(wanted, number)) == sum(1 << row for row in rows)


def addresses(count):
    return [port(f"10.0.{i >> 8}.{i & 255}") for i in range(count)]


def fill_and_empty(count, *, forked):
    ports, many = HostPorts(), addresses(count)
    if forked:
        for one in many:
            ports.add(one, 1)
        ports = ports.what_if()
    for one in many:
        ports.add(one, 7)
    assert ports.conflicting(port()) == (0b10000010 if forked else 0b10000000)
    for one in many:
        ports.remove(one, 7)
    assert ports.conflicting(port()) == (0b10 if forked else 0)


@pytest.mark.parametrize("forked", [False, True])
def test_thousands_of_addresses_of_one_port_cost_no_more_than_so_many_ports(forked):
    small = work_of(lambda: fill_and_empty(500, forked=forked))
    assert work_of(lambda: fill_and_empty(1000, forked=forked)).ratio(small) < 2.5


def test_two_pods_with_thousands_of_addresses_are_compared_in_one_pass_each():
    def compare(count):
        return any_ports_conflict(addresses(count), [port("::1"), *addresses(2 * count)[count:]])

    assert not compare(500)
    small = work_of(lambda: compare(500))
    assert work_of(lambda: compare(1000)).ratio(small) < 2.5
