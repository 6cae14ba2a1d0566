"""Files that outlive the process: compiled kernels and tuning results, in the user's cache directory.

One file per entry, named by the hash of its key, written beside its place and renamed into it: a reader sees a whole
entry or none, whoever else writes or dies while writing. Nothing here raises for what a disk does: an entry that cannot
be read is made again, one that cannot be written is not kept. Why like this: docs/design/caches.md.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import stat
import struct
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from hologram.foundation.config import config
from hologram.foundation.frozen import frozen

T = TypeVar("T")

FORMAT = "v1"  # a folder of its own for each layout of the files
MAGIC = b"hologram"
_HEADER = struct.Struct("<8sQ32s")  # magic, bytes of content, SHA-256 of the file's name and the content
_ENTRY = r"[0-9a-f]{64}"
_UNFINISHED = r"writing-[0-9a-f]{16}"
_ABANDONED_S = 600  # a file unfinished for so long has lost its writer
_USED_S = 24 * 3600  # how exactly an entry's last use is known
_KEPT = 0.75  # of the limit, once it is exceeded
_SCANS = 16  # sizes are added up again after this part of the limit was written
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_INSTEAD = "HOLOGRAM_CACHE_DIR names another directory, HOLOGRAM_CACHE=0 goes without"
_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


@frozen(slots=True)
class CacheStats:
    """What this process has had from the entries of one kind."""

    hits: int = 0  # entries read
    misses: int = 0  # looked for in vain
    stored: int = 0  # entries written
    corrupt: int = 0  # damaged ones, deleted
    compiled: int = 0  # what was made because no entry held it


@frozen(slots=True)
class Usage:
    """What the directory holds, of all kinds."""

    entries: int
    nbytes: int


class _Refused(OSError):
    """What is there may be somebody else's work."""


class _Damaged(Exception):
    """An entry is not what was written."""


def key(*parts: str) -> str:
    """One text of several, from which they could be told apart again."""
    return json.dumps(parts)


def shared() -> Store:
    """The process's store for the directory that the environment names now."""
    return _opened(config.cache_dir if config.cache else None, config.cache_bytes)


@functools.lru_cache(maxsize=16)
def _opened(root: Path | None, limit_bytes: int) -> Store:
    return Store(root, limit_bytes)


class Store:
    """Entries of several kinds in one directory, `limit_bytes` in all; without a directory it only counts.

    `problem` says why nothing is kept, where a disk or its permissions are the cause.
    """

    def __init__(self, root: Path | None, limit_bytes: int) -> None:
        self.root = root
        self.limit_bytes = limit_bytes
        self.problem = ""
        if root is not None and not root.is_absolute():  # "~" stays as it is where a user has no home
            self._say(OSError("it must be an absolute path"))
            self.root = None
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._unscanned = limit_bytes  # bytes written since sizes were added up; at first what others wrote

    def get(self, kind: str, key: str) -> bytes | None:
        """The content kept under a key, or None."""
        place = self._place(kind, key)
        content = None
        if place is not None:
            try:
                self._inspect(kind)
                content = _read(place)
            except FileNotFoundError:
                pass
            except _Damaged:
                self.discard(kind, key)
            except OSError as error:
                self._say(error)
        self._count(kind, "misses" if content is None else "hits")
        return content

    def put(self, kind: str, key: str, content: bytes) -> None:
        """Keeps content under a key, in place of what was there."""
        place = self._place(kind, key)
        if place is None or len(content) > self.limit_bytes:
            return
        try:
            self._enter(kind, place, content)
        except OSError as error:
            self._say(error)
            return
        self._count(kind, "stored")
        self._unscanned += len(content)
        if self._unscanned * _SCANS >= self.limit_bytes:
            self._unscanned = 0
            self.tidy()

    def discard(self, kind: str, key: str) -> None:
        """Deletes an entry that is damaged or that its reader cannot use, and counts it as corrupt."""
        self._count(kind, "corrupt")
        place = self._place(kind, key)
        if place is not None:
            _remove(place)

    def kept(self, kind: str, key: str | None, make: Callable[[], bytes], use: Callable[[bytes], T]) -> T:
        """What `use` gives for the content kept under a key, or else for what `make` gives, which is kept from then on.

        `use` raises ValueError, TypeError or KeyError for content that is no good, which is then made again. Without a
        key it is always made, and not kept.
        """
        if key is not None:
            content = self.get(kind, key)
            if content is not None:
                try:
                    return use(content)
                except (ValueError, TypeError, KeyError):
                    self.discard(kind, key)
        content = make()
        self._count(kind, "compiled")
        if key is not None:
            self.put(kind, key, content)
        return use(content)

    def examine(self) -> str:
        """Why nothing can be kept, or "": an entry is written and removed again."""
        place = self._place("trial", "")
        if place is not None and not self.problem:
            try:
                self._enter("trial", place, b"")
                _remove(place)
            except OSError as error:
                self.problem = self._problem(error)
        return self.problem

    def stats(self, kind: str) -> CacheStats:
        """This process's counts for a kind."""
        with self._lock:
            return CacheStats(
                **{field: self._counts[kind, field] for field in CacheStats.__dataclass_fields__}
            )

    def usage(self) -> Usage:
        """How much is there now, whoever wrote it."""
        sizes = [status.st_size for _, status in self._files(_ENTRY)]
        return Usage(len(sizes), sum(sizes))

    def tidy(self) -> None:
        """Removes files whose writer died; beyond the limit also the entries that were not used for longest."""
        now = time.time()
        for path, status in self._files(_UNFINISHED):
            if now - status.st_mtime > _ABANDONED_S:
                _remove(path)
        entries = sorted(self._files(_ENTRY), key=lambda entry: entry[1].st_mtime)
        total = sum(status.st_size for _, status in entries)
        if total <= self.limit_bytes:
            return
        for path, status in entries:
            if total <= self.limit_bytes * _KEPT:
                return
            _remove(path)
            total -= status.st_size

    def _place(self, kind: str, key: str) -> Path | None:
        name = hashlib.sha256(f"{kind} {key}".encode()).hexdigest()
        return None if self.root is None else self.root / FORMAT / kind / name

    def _folders(self, kind: str) -> tuple[Path, ...]:
        assert self.root is not None
        return self.root, self.root / FORMAT, self.root / FORMAT / kind

    def _enter(self, kind: str, place: Path, content: bytes) -> None:
        root, *inner = self._folders(kind)
        root.parent.mkdir(parents=True, exist_ok=True)
        for folder in (root, *inner):
            folder.mkdir(0o700, exist_ok=True)
        self._inspect(kind)
        _write(place, content)

    def _inspect(self, kind: str) -> None:
        """Entries are code that will run: raises OSError where somebody else could have put them there."""
        for folder in self._folders(kind):
            _own(folder.stat(), folder)

    def _files(self, pattern: str) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
        """The files of that name, of every kind; those that vanish meanwhile are left out."""
        if self.root is None:
            return
        known = re.compile(pattern)
        for folder in _listed(self.root / FORMAT):
            if not folder.is_dir():
                continue
            for entry in _listed(folder):
                if known.fullmatch(entry.name):
                    try:
                        yield entry, entry.stat(follow_symlinks=False)
                    except OSError:
                        continue

    def _count(self, kind: str, what: str) -> None:
        with self._lock:
            self._counts[kind, what] += 1

    def _say(self, error: OSError) -> None:
        """Notes the first problem, and warns of it: every process will compile again what it needs."""
        if not self.problem:
            self.problem = self._problem(error)
            warnings.warn(f"{self.problem}; {_INSTEAD}", RuntimeWarning, stacklevel=2)

    def _problem(self, error: OSError) -> str:
        return f"kernels are not kept in {self.root}: {error.strerror or error}"


def _own(status: os.stat_result, path: Path) -> None:
    """Raises _Refused unless the file or folder belongs to this user, and no other may write to it."""
    if not hasattr(os, "geteuid"):  # Windows: a user's folders are closed to others
        return
    if status.st_uid != os.geteuid():
        raise _Refused(f"{path} must belong to user {os.geteuid()}, it belongs to {status.st_uid}")
    if status.st_mode & _OTHERS_WRITE:
        mode = stat.S_IMODE(status.st_mode)
        raise _Refused(f"{path} must be writable by its owner only, its mode is {mode:o}: chmod go-w {path}")


def _read(path: Path) -> bytes:
    """An entry's content; raises _Damaged or OSError."""
    with open(os.open(path, os.O_RDONLY | _FLAGS), "rb") as file:
        status = os.fstat(file.fileno())
        _own(status, path)
        data = file.read()
    header, content = data[: _HEADER.size], data[_HEADER.size :]
    if header != _header(path, content):
        raise _Damaged
    if time.time() - status.st_mtime > _USED_S:
        _touch(path)
    return content


def _header(path: Path, content: bytes) -> bytes:
    checksum = hashlib.sha256(path.name.encode() + content).digest()
    return _HEADER.pack(MAGIC, len(content), checksum)


def _write(path: Path, content: bytes) -> None:
    """Puts a whole entry in place, or raises OSError and leaves what was there."""
    unfinished = path.with_name(f"writing-{os.urandom(8).hex()}")
    try:
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600), "wb") as file:
            file.write(_header(path, content) + content)
        os.replace(unfinished, path)
    except BaseException:
        _remove(unfinished)
        raise


def _touch(path: Path) -> None:
    try:
        os.utime(path)
    except OSError:
        return


def _listed(folder: str | os.PathLike[str]) -> list[os.DirEntry[str]]:
    """What a folder holds now; nothing where there is none."""
    try:
        with os.scandir(folder) as entries:
            return [*entries]
    except OSError:
        return []


def _remove(path: str | os.PathLike[str]) -> None:
    try:
        os.unlink(path)
    except OSError:
        return
