"""Writes that may only be sent while something still holds: a lease, in the scheduler's case.

A request can be old when its turn comes: it waited for our rate limit or for a connection, or the
whole process was stopped. So the question is asked again in the very step that hands the first
byte to the socket, and a refused request leaves nothing on the wire. What remains is a process
stopped between that question and the system call right behind it.
"""

from collections.abc import Callable

from kscheduler.client.errors import Withheld

# For how many more seconds writes may be sent; none, when not positive.
Fence = Callable[[], float]


def withheld(request: str) -> Withheld:
    return Withheld(request, "not sent, because the lease has run out")
