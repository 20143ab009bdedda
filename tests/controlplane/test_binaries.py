"""Where programs are looked for, and what is said when they are not there."""

import pytest

from tests.controlplane import binaries


@pytest.fixture
def assets(tmp_path, monkeypatch):
    folder = tmp_path / "assets"
    folder.mkdir()
    monkeypatch.setenv(binaries.ASSETS_VARIABLE, str(folder))
    return folder


def make_program(folder, name):
    path = folder / name
    path.touch(mode=0o755)
    return path


def test_a_folder_that_is_named_is_used(assets):
    etcd = make_program(assets, "etcd")
    assert binaries.program("etcd") == etcd
    assert binaries.missing() == ["kube-apiserver"]


def test_a_program_missing_there_is_told_by_name(assets):
    with pytest.raises(binaries.MissingProgramError, match="has no kube-apiserver") as raised:
        binaries.program("kube-apiserver")
    assert binaries.ASSETS_VARIABLE in str(raised.value)


def test_our_own_build_is_kept_outside_the_work_tree(tmp_path, monkeypatch):
    monkeypatch.delenv(binaries.ASSETS_VARIABLE, raising=False)
    monkeypatch.setenv(binaries.CACHE_VARIABLE, str(tmp_path))
    assert binaries.folder().is_relative_to(tmp_path)
    with pytest.raises(binaries.MissingProgramError, match="make controlplane"):
        binaries.program("etcd")
