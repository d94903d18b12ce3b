"""Modules of the user's own whose file has changed since this process imported them.

Workers import a module anew, so they would run other code than this process, a notebook perhaps.
"""

import hashlib
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from drumline.recipes.named_objects import CODE

_SEEN: dict[str, tuple[ModuleSpec | None, bytes]] = {}
"""Module → its spec, which a reload replaces, and its file's digest at the first call."""


def refuse_edited(config: Any, layout: Any) -> None:
    """Raise ValueError if a module that a config names has another file than it was made from.

    The first call takes a file as it is: what was changed before it cannot be told.
    """
    if layout.pool == "inline":
        return
    named = [getattr(config, field, "") for field in CODE]
    modules = {name.partition(":")[0] for name in named if isinstance(name, str) and ":" in name}
    for name in sorted({*modules, type(config).__module__}):
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if name.partition(".")[0] == "drumline" or not file:
            continue
        try:
            digest = hashlib.sha256(Path(file).read_bytes()).digest()
        except OSError:
            continue  # of an archive, or removed: workers say what they cannot import
        spec = getattr(module, "__spec__", None)
        seen, before = _SEEN.setdefault(name, (spec, digest))
        if seen is spec and before != digest:
            raise ValueError(
                f"{file} has changed since this process imported it: workers would run the new "
                f"code and this process the old. Start Python again, or importlib.reload({name})"
            )
        _SEEN[name] = (spec, digest)
