"""Places to which the system refuses access, also where the tests run as root."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest


def refuse(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    """Refuse a file, or a folder with all that is in it; the place itself can be seen."""
    whole = place.absolute()

    def refusing(name: str) -> Any:
        genuine = getattr(os, name)

        def called(path: Any, *arguments: Any, **named: Any) -> Any:
            if isinstance(path, (str, Path)):
                given = Path(path).absolute()
                if whole in given.parents or (given == whole and name != "stat"):
                    raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return genuine(path, *arguments, **named)

        return called

    for name in ("open", "scandir", "listdir", "stat"):
        monkeypatch.setattr(os, name, refusing(name))
