"""Files in shared folders: whose they are, where links lead, and what is left behind."""

import os
import stat

import pytest

from kscheduler.private_files import private_folder, write_private_file


@pytest.fixture
def another_user(monkeypatch):
    """From now on, files made so far are somebody else's."""

    def become():
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

    return become


def mode_of(path):
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_file_is_new_and_for_its_owner_alone(tmp_path):
    path = tmp_path / "file"
    path.write_text("a file that somebody has open")
    path.chmod(0o666)
    with path.open() as kept_open:
        write_private_file(path, b"secret")
        assert kept_open.read() == "a file that somebody has open"
    assert path.read_bytes() == b"secret"
    assert mode_of(path) == 0o600
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_may_be_for_all_to_read(tmp_path):
    write_private_file(tmp_path / "file", b"", 0o644)
    assert mode_of(tmp_path / "file") == 0o644 & ~_umask()


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_links_of_ones_own_are_followed(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder/link")
    (tmp_path / "folder" / "link").symlink_to(tmp_path / "file")
    write_private_file(tmp_path / "link", b"secret")
    assert (tmp_path / "file").read_bytes() == b"secret"
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda path: path.write_text("before"), id="file"),
        pytest.param(lambda path: path.symlink_to(path.with_name("elsewhere")), id="link"),
    ],
)
def test_files_and_links_of_another_user_are_refused(tmp_path, another_user, make):
    path = tmp_path / "file"
    make(path)
    before = path.lstat()
    another_user()
    with pytest.raises(PermissionError) as refused:
        write_private_file(path, b"secret")
    assert refused.value.strerror == "belongs to another user; remove it or choose another name"
    assert refused.value.filename == str(path)
    assert path.lstat() == before
    assert os.listdir(tmp_path) == ["file"]


def test_a_link_of_ones_own_to_a_file_of_another_user_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("before")
    (tmp_path / "link").symlink_to("file")
    monkeypatch.setattr(os, "geteuid", _owner_of_links(os.getuid()))
    with pytest.raises(PermissionError):
        write_private_file(tmp_path / "link", b"secret")
    assert (tmp_path / "file").read_text() == "before"


def _owner_of_links(uid):
    """Says first that the process is this user, and after that that it is another."""
    answers = iter([uid])
    return lambda: next(answers, uid + 1)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        pytest.param(lambda path: path.mkdir(), "Is a directory", id="folder"),
        pytest.param(os.mkfifo, "is not a regular file", id="pipe"),
        pytest.param(
            lambda path: path.symlink_to(path), "Too many levels of symbolic links", id="loop"
        ),
    ],
)
def test_other_things_are_not_replaced(tmp_path, make, reason):
    path = tmp_path / "thing"
    make(path)
    before = path.lstat()
    with pytest.raises(OSError, match=reason):
        write_private_file(path, b"secret")
    assert path.lstat().st_ino == before.st_ino
    assert os.listdir(tmp_path) == ["thing"]


def test_a_failure_names_the_file_and_leaves_nothing(tmp_path):
    path = tmp_path / "no" / "where"
    with pytest.raises(FileNotFoundError) as refused:
        write_private_file(path, b"secret")
    assert refused.value.filename == str(path)
    assert os.listdir(tmp_path) == []


def test_a_private_folder_goes_with_its_block(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with private_folder("x-") as folder, private_folder("x-") as other:
        assert folder != other
        assert mode_of(folder) == 0o700
        (folder / "file").write_text("")
    assert os.listdir(tmp_path) == []
    with pytest.raises(KeyError), private_folder("x-"):
        raise KeyError
    assert os.listdir(tmp_path) == []
