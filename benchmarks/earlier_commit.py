"""An earlier commit's sources, checked out beside this tree for as long as they are measured."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]


@contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """Check a commit out, and remove its tree at the end."""
    with tempfile.TemporaryDirectory(prefix="earlier-commit-") as place:
        git = ["git", "-C", str(TREE), "worktree"]
        subprocess.run([*git, "add", "-q", "--detach", f"{place}/tree", commit], check=True)
        try:
            yield Path(place) / "tree"
        finally:
            subprocess.run([*git, "remove", "--force", f"{place}/tree"], check=True)
