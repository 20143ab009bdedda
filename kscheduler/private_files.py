"""Files that no other user may write: credentials, keys, and the files beside them.

In folders that all users share, such as the temporary one, a name that can be guessed may be taken
already: by a link that leads elsewhere, or by a file whose owner can change it later. So content
goes into a new file, which then takes the place of the old one; and an old one of another user
is left alone.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Links that lead to links: as many as Linux follows.
MAX_LINKS = 40

ANOTHER_USERS = "belongs to another user; remove it or choose another name"


def write_private_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Puts a new file in the place of `path`, all at once; raises OSError.

    A link of one's own is followed. A link or file of another user is refused, and so is anything
    but a regular file.
    """
    target = _target(path)
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(temporary, flags, mode), "wb") as file:
            file.write(content)
        os.replace(temporary, target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _target(path: Path) -> Path:
    """The file behind `path`, which need not be there yet."""
    target = path
    for _ in range(MAX_LINKS):
        try:
            found = target.lstat()
        except FileNotFoundError:
            return target
        if found.st_uid != os.geteuid():
            raise OSError(errno.EPERM, ANOTHER_USERS, str(path))
        if stat.S_ISREG(found.st_mode):
            return target
        if stat.S_ISDIR(found.st_mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISLNK(found.st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", str(path))
        target = target.parent / target.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


@contextmanager
def private_folder(prefix: str) -> Iterator[Path]:
    """A new folder in the temporary one, for its owner alone, that goes with the block."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    finally:
        remove_folder(folder)


def remove_folder(folder: Path) -> None:
    """Remove a folder with whatever is in it; what cannot be removed stays."""
    shutil.rmtree(folder, ignore_errors=True)
