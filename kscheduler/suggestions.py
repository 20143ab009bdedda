"""Suggestions for names that do not exist: the nearest name that does, if one is near."""

import difflib
from collections.abc import Iterable

# How alike two names must be, from 0 to 1; what was recorded of kube-scheduler (`--foo`) is like
# nothing, so that its answers stay as they are.
NEARNESS = 0.7


def nearest(given: str, known: Iterable[str]) -> str:
    """The known name that is most like the given one, without regard to case; "" if none is."""
    by_folded = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(given.casefold(), by_folded, 1, NEARNESS)
    return by_folded[close[0]] if close else ""
