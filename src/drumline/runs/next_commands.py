"""Commands about a run, ready to be typed where the run was started."""

import shlex

from drumline.runs.folder import RunFolder, newest_run

WITHOUT_CODE = ("plot", "compare", "report")
"""Commands that import nothing that a run folder names."""


def as_typed(folder: RunFolder, command: str, *words: str) -> str:
    """Return a command to be typed now: the newest run under runs/ is called `last`."""
    newest = newest_run()
    is_last = newest is not None and newest.resolve() == folder.path.resolve()
    return _joined(folder, command, "last" if is_last else str(folder.path), words)


def by_path(folder: RunFolder, command: str, *words: str) -> str:
    """Return a command to be typed at any time: `last` may be another run by then."""
    return _joined(folder, command, str(folder.path), words)


def _joined(folder: RunFolder, command: str, run: str, words: tuple[str, ...]) -> str:
    trust = bool(folder.named_code()) and command not in WITHOUT_CODE
    return shlex.join(["drumline", command, run, *words, *(["--trust-code"] if trust else [])])
