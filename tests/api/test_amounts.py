import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kscheduler.api.amounts import at_least, at_most, exact, rounded_down
from kscheduler.api.quantity import nano_value

GI, MI = 1 << 30, 1 << 20
NANO = 10**9


@pytest.mark.parametrize(
    ("resource", "amount", "up", "down"),
    [
        ("cpu", 250, "250m", "250m"),
        ("cpu", 2000, "2", "2"),
        ("cpu", 1337, "1337m", "1337m"),
        ("memory", 8 * GI, "8Gi", "8Gi"),
        ("memory", int(29.69 * GI), "29.7Gi", "29.6Gi"),
        ("memory", GI - 1, "1024Mi", "1023.9Mi"),
        ("memory", 0, "0", "0"),
        ("memory", 100, "100", "100"),
        ("memory", -int(1.25 * GI), "", "-1.3Gi"),
        ("ephemeral-storage", 3 << 50, "3Pi", "3Pi"),
        ("hugepages-2Mi", 4 * MI, "4Mi", "4Mi"),
        ("example.com/gpu", 3, "3", "3"),
        ("pods", 110, "110", "110"),
    ],
)
def test_amounts_are_written_as_people_do(resource, amount, up, down):
    if amount >= 0:
        assert at_least(resource, amount) == up
    assert at_most(resource, amount) == down


def bytes_of(text):
    """What a request of this text asks for: parts of a byte count as a whole one."""
    return -(-nano_value(text) // NANO)


@given(st.integers(0, 1 << 53), st.sampled_from(["cpu", "memory", "pods"]))
def test_an_exact_amount_is_read_as_what_it_was(amount, resource):
    assert nano_value(exact(resource, amount)) == amount * (10**6 if resource == "cpu" else NANO)


@example(1229)
@given(st.integers(1, 1 << 53))
def test_what_is_told_is_true(amount):
    """Asking for what is said to be left fits, and what is said to be asked for is enough."""
    assert bytes_of(at_most("memory", amount)) <= amount
    assert bytes_of(at_least("memory", amount)) >= amount
    assert 0 < rounded_down("memory", amount) <= amount
