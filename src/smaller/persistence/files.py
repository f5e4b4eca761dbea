"""Files that appear complete or not at all, one or several at a time.

Everything is written to hidden files beside its place, flushed to disk, and renamed when nothing can fail any more. A
set of files has a *ledger* of the renames: while it is there, the set is complete, and whoever comes next finishes
renames that were interrupted. The writer of a hidden file holds a lock on it, so what a dead run left behind is known
and removed.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows: what a dead run left behind stays
    fcntl = None  # type: ignore[assignment]

__all__ = ["atomic_write", "check_replaceable", "finish_interrupted", "write_together"]

_BINARY = getattr(os, "O_BINARY", 0)  # Windows would translate line ends
_LEDGER = ".smaller-renames.json"
_SHOWN = 100  # characters of a name that its hidden file repeats
_HIDDEN = re.compile(r"\.(.+)\.[0-9a-f]{16}\.tmp", re.DOTALL)


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a file that replaces ``path`` once everything is on disk; on any failure ``path`` is as it was before."""
    target = Path(path)
    check_replaceable(target)
    _remove_leftovers(target.parent, {target.name})
    with ExitStack() as stack:
        file, hidden = _hidden_file(target, stack)
        yield file
        _to_disk(file)
        os.replace(hidden, target)
        _folder_to_disk(target.parent)


def write_together(folder: str | os.PathLike[str], contents: Mapping[str, bytes]) -> None:
    """Write several files of one folder: after any interruption all of them are old, or all of them new.

    Parameters
    ----------
    folder : str or path
        An existing folder.
    contents : mapping of str to bytes
        What to write, by the name of the file.

    Raises
    ------
    OSError
        If a file cannot be replaced, naming it; all are as they were before.
    """
    folder = Path(folder)
    finish_interrupted(folder)
    for name in contents:
        check_replaceable(folder / name)
    _remove_leftovers(folder, {*contents, _LEDGER})
    with ExitStack() as stack:
        renames = []
        for name, content in contents.items():
            file, hidden = _hidden_file(folder / name, stack)
            file.write(content)
            _to_disk(file)
            renames.append([hidden.name, name])
        ledger, hidden = _hidden_file(folder / _LEDGER, stack)
        ledger.write(json.dumps(renames).encode())
        _to_disk(ledger)
        os.replace(hidden, folder / _LEDGER)  # from here on the new files count
        _folder_to_disk(folder)
        _rename_all(folder, renames)


def finish_interrupted(folder: Path) -> None:
    """Carry out renames that a run which is no longer there had decided on."""
    with suppress(FileNotFoundError), open(folder / _LEDGER, "rb") as ledger:
        if not _lock(ledger):
            return
        try:
            renames = json.loads(ledger.read(1 << 20))
            known = all(_HIDDEN.fullmatch(hidden)[1] == name[:_SHOWN] and "/" not in hidden for hidden, name in renames)  # type: ignore[index]
        except (ValueError, TypeError):
            known = False
        _rename_all(folder, renames if known else [])


def _rename_all(folder: Path, renames: list[list[str]]) -> None:
    for hidden, name in renames:
        with suppress(FileNotFoundError):  # renamed before the interruption
            os.replace(folder / hidden, folder / name)
    (folder / _LEDGER).unlink(missing_ok=True)
    _folder_to_disk(folder)


def check_replaceable(target: Path) -> None:
    """Find out before anything is replaced whether it may be: a folder, or a file without write permission, may not."""
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder where a file is to be written", str(target))
    if target.exists() and not (target.stat().st_mode & 0o222 and os.access(target, os.W_OK)):
        raise PermissionError(errno.EACCES, "is read-only and was not replaced", str(target))


def _hidden_file(target: Path, stack: ExitStack) -> tuple[BinaryIO, Path]:
    """Create a locked file beside its target; the stack removes it unless it was renamed."""
    old_mode = target.stat().st_mode & 0o777 if target.exists() else None
    hidden = target.with_name(f".{target.name[:_SHOWN]}.{secrets.token_hex(8)}.tmp")
    # A new file gets what the process allows it, which the system knows; an old one keeps its mode and is never wider.
    handle = os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_RDWR | _BINARY, 0o666 if old_mode is None else 0o600)
    stack.callback(hidden.unlink, missing_ok=True)
    file = stack.enter_context(os.fdopen(handle, "wb"))
    if old_mode is not None:
        os.chmod(hidden, old_mode)
    _lock(file)
    return file, hidden


def _remove_leftovers(folder: Path, names: set[str]) -> None:
    shown = {name[:_SHOWN] for name in names}
    with os.scandir(folder) as entries:
        hidden = [entry.path for entry in entries if (match := _HIDDEN.fullmatch(entry.name)) and match[1] in shown]
    for path in hidden:
        with suppress(OSError), open(path, "rb") as file:
            if _lock(file):
                os.unlink(path)


def _lock(file: BinaryIO) -> bool:
    """Take the lock of a file; False if a live process holds it, or where there are no locks."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _to_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _folder_to_disk(folder: Path) -> None:
    """Let renames survive a power cut."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
