"""ObjectStore: named objects below one URL (s3://bucket/prefix …); the only file with fsspec."""

import asyncio
import os
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from drumline.runs.atomic_files import sync
from drumline.runs.run_error import RunError

_OPTIONS: dict[str, dict[str, Any]] = {
    # Short: a mirror tries again by itself, and a start waits for an answer.
    "s3": {
        "config_kwargs": {"connect_timeout": 5, "read_timeout": 20, "retries": {"max_attempts": 2}}
    },
    "file": {"auto_mkdir": True},
}
_SYNONYMS = {"s3a": "s3", "local": "file"}

PARTIAL = ".partial"
"""End of the names of files that a write to a directory has begun."""

_PATTERN_SIGNS = frozenset("*?[")

_Answer = TypeVar("_Answer")


class StoreError(RunError):
    """A store that did not do as it was asked: one sentence with its URL."""


class NoObject(StoreError):
    """No object has this name."""


def is_url(name: str) -> bool:
    """Return whether a name is that of a store, and not a path.

    >>> is_url("s3://bucket/run"), is_url("runs/es-CartPole-v1-s0")
    (True, False)
    """
    return "://" in name


class TooLarge(StoreError):
    """An object has more bytes than any that a run writes under its name."""


class ObjectStore:
    """Objects below one URL. Calls wait for the store; any thread may make them."""

    def __init__(self, url: str):
        import fsspec  # imported here: only runs with a store need it
        from fsspec.core import url_to_fs

        self.url = url.rstrip("/")
        if not is_url(self.url):
            raise StoreError(f"--store {url} is no URL, such as s3://bucket/prefix")
        try:
            password = urlsplit(url).password
        except ValueError as error:
            raise StoreError(f"--store {url} is no URL ({_words(error)})") from error
        if password:
            raise StoreError(
                "the URL of --store has a password in it, which config.json would keep: put it "
                "where the store's own tools look for it"
            )
        protocol = url.partition("://")[0]
        protocol = _SYNONYMS.get(protocol, protocol)
        try:
            options = _OPTIONS.get(protocol, {})
            self._files, self._root = url_to_fs(self.url, skip_instance_cache=True, **options)
        except ImportError as error:
            raise StoreError(
                f"{url} needs a package that is not installed ({error}); "
                "pip install 'drumline[store]' brings that of s3://"
            ) from error
        except Exception as error:  # whatever a file system's constructor raises
            known = ", ".join(sorted(fsspec.available_protocols()))
            raise StoreError(
                f"--store {url} cannot be opened ({_words(error)}); fsspec knows {known}"
            ) from error
        self._is_directory = protocol == "file"
        """Whether a write is not one step."""
        if protocol == "s3":
            self._files.retries = 1  # those of the layer below are enough

    def put(self, name: str, data: bytes) -> None:
        """Write a whole object: afterwards it is there with these bytes, or StoreError."""

        def written() -> None:
            if not self._is_directory:
                self._files.pipe_file(self._path(name), data)
                return
            aside = f"{self._path(name)}.{os.urandom(8).hex()}{PARTIAL}"
            try:
                self._files.pipe_file(aside, data)
                sync(Path(aside))
                self._files.mv(aside, self._path(name))
                sync(Path(self._path(name)).parent)
            except BaseException:
                with suppress(OSError):  # the fault of the write is the one to tell
                    self._files.rm_file(aside)
                raise

        self._asked(written)

    def put_new(self, name: str, data: bytes) -> bool:
        """Write an object unless it is there; return False if it is.

        On a store without conditional writes two callers at the same time may both get True.
        """
        if self._is_directory:
            return self._asked(lambda: self._linked(self._path(name), data))
        try:
            self._asked(lambda: self._files.pipe_file(self._path(name), data, mode="create"))
        except StoreError as error:
            if isinstance(error.__cause__, FileExistsError):
                return False
            if not isinstance(error.__cause__, (TypeError, ValueError, NotImplementedError)):
                raise
            if self._asked(lambda: self._files.exists(self._path(name))):
                return False
            self.put(name, data)
        return True

    def _linked(self, path: str, data: bytes) -> bool:
        """Write a new file of a directory, whole or not at all."""
        aside = f"{path}.{os.urandom(8).hex()}{PARTIAL}"
        try:
            self._files.pipe_file(aside, data)
            sync(Path(aside))
            os.link(aside, path)
        except FileExistsError:
            return False
        finally:
            with suppress(OSError):
                self._files.rm_file(aside)
        sync(Path(path).parent)
        return True

    def get(self, name: str, limit: int) -> bytes:
        """Return an object's bytes; TooLarge if there are more than `limit`, NoObject for none."""
        try:
            data: bytes = self._asked(
                lambda: self._files.cat_file(self._path(name), start=0, end=limit + 1)
            )
        except StoreError as error:
            cause = error.__cause__
            if isinstance(cause, FileNotFoundError) and not _misses_bucket(cause):
                raise NoObject(f"{self.url} has no {name}") from error
            raise
        if len(data) > limit:
            raise TooLarge(f"{self.url}/{name} has more than {limit} bytes")
        return data

    def names(self, directory: str) -> list[str]:
        """Return the names of the objects below a directory, sorted; none if it is not there."""
        return sorted(self.sizes(directory))

    def sizes(self, directory: str) -> dict[str, int | None]:
        """Return the same objects with their bytes; None where the store does not tell."""

        def listed() -> dict[str, Any]:
            try:
                return self._files.find(self._path(directory), detail=True)
            except FileNotFoundError as error:
                if _misses_bucket(error):
                    raise
                return {}

        start = len(self._root.rstrip("/")) + 1
        return {path[start:]: about.get("size") for path, about in self._asked(listed).items()}

    def remove(self, names: Collection[str]) -> None:
        """Remove objects; those that are not there are no error."""

        def removed(remove: Callable[[Any], None], which: list[str] | str) -> None:
            with suppress(FileNotFoundError):
                remove(which)

        paths = [self._path(name) for name in names]
        # Of several paths, `rm` takes one with such a sign for a pattern, and removes what fits it.
        plain = [path for path in paths if not _PATTERN_SIGNS.intersection(path)]
        # Only services take all together: others stop at the first that is not there.
        for which in [plain] if plain and self._files.async_impl else plain:
            self._asked(partial(removed, self._files.rm, which))
        for path in sorted(set(paths) - set(plain)):
            self._asked(partial(removed, self._files.rm_file, path))

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    def _asked(self, call: Callable[[], _Answer]) -> _Answer:
        try:
            self._files.invalidate_cache()  # another host writes to the store, too
            return call()
        except (Exception, asyncio.CancelledError) as error:
            raise StoreError(self._sentence(error)) from error

    def _sentence(self, error: BaseException) -> str:
        kind, words = type(error).__name__, _words(error)
        if "Credentials" in kind:
            return (
                f"there are no credentials for {self.url} ({words}); for s3:// set "
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
            )
        if isinstance(error, PermissionError):
            return f"{self.url} does not take these credentials ({words})"
        if _misses_bucket(error):
            return f"the bucket of {self.url} does not exist ({words}); make it, or name another"
        return f"{self.url} cannot be used ({words})"


def _misses_bucket(error: BaseException) -> bool:
    """Return whether a service says so; a path with "bucket" in it is no such message."""
    return isinstance(error, FileNotFoundError) and "bucket does not exist" in str(error)


def _words(error: BaseException) -> str:
    words = " ".join(str(error).split())
    return words if words else type(error).__name__
