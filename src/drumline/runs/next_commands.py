"""Commands about a run, for the user to type in the directory where the run was started."""

import shlex

from drumline.runs.folder import LAST, RunFolder, newest_run
from drumline.runs.named_code import code_of_acting

WITHOUT_CODE = ("plot", "compare", "report")
"""Commands that import no code that a run folder names."""

ACTING = ("evaluate", "enjoy")
"""Commands that import only the code of the environment and of the policy."""


def as_typed(folder: RunFolder, command: str, *words: str) -> str:
    """Return a command to type now: the newest run under runs/ is called `last`."""
    newest = newest_run()
    is_last = newest is not None and newest.resolve() == folder.path.resolve()
    return _joined(folder, command, LAST if is_last else folder.shown, words)


def by_path(folder: RunFolder, command: str, *words: str) -> str:
    """Return a command to type at any time: it names the path, because `last` may change."""
    return _joined(folder, command, folder.shown, words)


def from_store(url: str) -> str:
    """Return the command that goes on with a run that was copied to an object store."""
    return shlex.join(["drumline", "resume", url])


def _joined(folder: RunFolder, command: str, run: str, words: tuple[str, ...]) -> str:
    acting = command in ACTING
    named = code_of_acting(folder.document["config"]) if acting else folder.named_code()
    trust = bool(named) and command not in WITHOUT_CODE
    return shlex.join(["drumline", command, run, *words, *(["--trust-code"] if trust else [])])
