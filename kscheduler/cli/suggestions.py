"""Suggestions for names that do not exist: the nearest name that does, if one is near."""

import difflib
import re
from collections.abc import Iterable

# How alike two names must be, from 0 to 1; what was recorded of kube-scheduler (`--foo`) is like
# nothing, so that its answers stay as they are.
NEARNESS = 0.7
_NO_PLUGIN = re.compile(r'\w+Plugin "(?P<name>[^"]+)" does not exist')


def nearest(given: str, known: Iterable[str]) -> str:
    """The known name that is most like the given one, without regard to case; "" if none is."""
    by_folded = {name.casefold(): name for name in known}
    close = difflib.get_close_matches(given.casefold(), by_folded, 1, NEARNESS)
    return by_folded[close[0]] if close else ""


def nearest_plugin(complaint: str) -> str:
    """The plugin that was meant where a complaint says that there is none of the name given."""
    found = _NO_PLUGIN.search(complaint)
    if found is None:
        return ""
    # Here, so that no other answer waits for numpy.
    from kscheduler.plugins import catalog
    from kscheduler.runtime.out_of_tree.registration import installed

    return nearest(found["name"], [*catalog().in_tree, *(entry.name for entry in installed())])
