import pytest

from kscheduler.state.host_ports import HostPort, HostPorts, ports_conflict

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
    assert ports_conflict(wanted, used) is conflict
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


def test_a_copy_is_on_its_own():
    ports = HostPorts()
    ports.add(port(), 0)
    twin = ports.copy()
    twin.add(port(), 1)
    twin.remove(port(), 0)
    assert (ports.conflicting(port()), twin.conflicting(port())) == (0b01, 0b10)
