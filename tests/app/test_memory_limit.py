"""Limits of memory: those of cgroups in either version, and the process's own."""

import os
import resource

import pytest

from kscheduler.app.memory_limit import MemoryUse, nearest_limit

PAGE = os.sysconf("SC_PAGE_SIZE")
V1 = "4:memory:/pods/one\n3:cpuset:/\n"
V2 = "0::/pods/one\n"


@pytest.fixture
def system(tmp_path):
    """Files of a machine on which this process has 600 pages, 500 of them its own."""

    def make(cgroup, **limits):
        (tmp_path / "statm").write_text("9000 600 100 1 0 700 0\n")
        (tmp_path / "cgroup").write_text(cgroup)
        for name, value in limits.items():
            path = tmp_path / "fs" / name.replace("__", "/").replace("_max", ".max")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{value}\n")
        return nearest_limit(tmp_path, tmp_path / "fs")

    return make


@pytest.fixture
def limited():
    """Sets a limit of this process, for a while."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    yield lambda limit: resource.setrlimit(resource.RLIMIT_DATA, (limit, before[1]))
    resource.setrlimit(resource.RLIMIT_DATA, before)


def test_a_container_has_the_limit_of_its_cgroup(system):
    assert system(V2, pods__one__memory_max=1000 * PAGE) == MemoryUse(500 * PAGE, 1000 * PAGE)


def test_a_container_may_see_its_cgroup_as_the_root(system):
    assert system(V2, memory_max=2000 * PAGE) == MemoryUse(500 * PAGE, 2000 * PAGE)


def test_the_nearest_limit_counts(system):
    use = system(V2, pods__one__memory_max=2000 * PAGE, memory_max=1000 * PAGE)
    assert use == MemoryUse(500 * PAGE, 1000 * PAGE)
    assert use.share == 0.5


def test_no_limit_is_none(system):
    assert system(V2, memory_max="max") is None
    assert system("") is None


def test_a_limit_of_the_first_version_is_a_limit(system, tmp_path):
    path = tmp_path / "fs" / "memory" / "pods" / "one" / "memory.limit_in_bytes"
    path.parent.mkdir(parents=True)
    path.write_text(f"{1000 * PAGE}\n")
    assert system(V1) == MemoryUse(500 * PAGE, 1000 * PAGE)


def test_the_process_may_have_one_of_its_own(system, limited):
    limit = 1 << 40
    limited(limit)
    assert system("") == MemoryUse(700 * PAGE, limit)


def test_a_system_without_proc_knows_of_none(tmp_path):
    assert nearest_limit(tmp_path / "nowhere", tmp_path) is None
