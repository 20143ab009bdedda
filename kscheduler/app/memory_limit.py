"""Memory limits of this process, and what it uses of them.

A container's limit is that of its cgroup: who goes beyond it is killed. RLIMIT_DATA and RLIMIT_AS
are the process's own: beyond them allocations fail. What counts differs, so each limit is told
with the use that is held against it; the one that is nearest is the one that matters.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PROC, CGROUPS = Path("/proc/self"), Path("/sys/fs/cgroup")
# Of /proc/self/statm, in pages.
_VIRTUAL, _RESIDENT, _SHARED, _DATA = 0, 1, 2, 5


class MemoryUse(NamedTuple):
    """Bytes in use, and how many may be."""

    used: int
    limit: int

    @property
    def share(self) -> float:
        return self.used / self.limit


def nearest_limit(proc: Path = PROC, cgroups: Path = CGROUPS) -> MemoryUse | None:
    """The limit of which the largest share is in use; None where there is none, or no /proc."""
    try:
        pages = [int(word) for word in (proc / "statm").read_text().split()]
    except OSError:
        return None
    page = os.sysconf("SC_PAGE_SIZE")
    # Pages of files are given back when memory is short: they are not held against a cgroup.
    private = (pages[_RESIDENT] - pages[_SHARED]) * page
    found = [MemoryUse(private, limit) for limit in _cgroup_limits(proc, cgroups)]
    for kind, used in ((resource.RLIMIT_DATA, _DATA), (resource.RLIMIT_AS, _VIRTUAL)):
        limit, _ = resource.getrlimit(kind)
        if limit != resource.RLIM_INFINITY:
            found.append(MemoryUse(pages[used] * page, limit))
    return max((use for use in found if use.limit > 0), key=lambda use: use.share, default=None)


def _cgroup_limits(proc: Path, cgroups: Path) -> Iterator[int]:
    """Of our cgroup, in either version; a container often sees its own as the root."""
    with suppress(OSError):
        for line in (proc / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                root, name = cgroups, "memory.max"
            elif "memory" in controllers.split(","):
                root, name = cgroups / "memory", "memory.limit_in_bytes"
            else:
                continue
            for folder in (root / path.lstrip("/"), root):
                with suppress(OSError, ValueError):
                    # `max` is no number: no limit.
                    yield int((folder / name).read_text())
