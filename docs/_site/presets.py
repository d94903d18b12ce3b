"""Fill docs/presets.md with the methods' presets.

python docs/_site/presets.py
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from drumline.recipes.method import Method
from drumline.recipes.methods import METHODS

PAGE = Path(__file__).parents[1] / "presets.md"
BEGIN = "<!-- begin presets -->"


def filled(page: str) -> str:
    """Return the page with the tables of today's presets."""
    return f"{page.partition(BEGIN)[0]}{BEGIN}\n{''.join(map(_table, METHODS.values()))}"


def _table(method: Method) -> str:
    rows = "".join(
        f"| {_listed(names)} | {f'`--preset {variant}`' if variant else ''} | {fields} |\n"
        for variant, presets in _variants(method)
        for fields, names in _by_fields(presets).items()
    )
    head = "| environments | | settings |\n|---|---|---|\n"
    return f"\n## {method.name}\n\n{head}{rows}" if rows else ""


def _variants(method: Method) -> Iterator[tuple[str, Mapping[str, Mapping[str, Any]]]]:
    config = method.config
    presets = dict(getattr(config, "PRESETS", {}))
    if hasattr(config, "OBJECTIVE"):
        presets["any `--objective`"] = config.OBJECTIVE
    yield "", presets
    yield from getattr(config, "VARIANTS", {}).items()


def _by_fields(presets: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the environments that share settings, by these in words."""
    found = dict[str, list[str]]()
    for name, fields in presets.items():
        words = ", ".join(f"`{field}` {_value(value)}" for field, value in fields.items())
        found.setdefault(words, []).append(name)
    return found


def _listed(names: list[str]) -> str:
    """Return ids in a row; games that have both packages' ids stand by their names alone."""
    both = [name for name in names if f"ALE/{name}" in names]
    others = [name for name in names if name.removeprefix("ALE/") not in both]
    games = ", ".join(name.removesuffix("-v5") for name in both)
    return ", ".join([*([f"{games} (`NAME-v5` and `ALE/NAME-v5`)"] if both else []), *others])


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return "-".join(map(str, value))
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value).lower() if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
