"""Hooks of the site: source files that pages link to become files of it, and ADRs get a list."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
OUTSIDE = re.compile(r"\]\((?:\.\./)+((?:src|examples|tests|benchmarks)/[^)#]+)\)")
"""A link from a page to a file of the repository outside docs/."""
DECISIONS = "<!-- decisions -->"
PRESETS = "<!-- presets -->"


def linked(docs: Path) -> set[str]:
    """Return the files outside docs/ that pages link to, from the root of the repository."""
    return {name for page in docs.rglob("*.md") for name in OUTSIDE.findall(page.read_text())}


def on_files(files: Files, config: Any) -> Files:
    """Add the linked source files, under source/."""
    for name in sorted(linked(Path(config.docs_dir))):
        if (ROOT / name).is_file():  # else the link is reported as broken
            files.append(
                File.generated(config, f"source/{name}.txt", abs_src_path=str(ROOT / name))
            )
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Point links at the copied files; list the decisions."""
    up = "../" * page.file.src_uri.count("/")
    markdown = OUTSIDE.sub(rf"]({up}source/\1.txt)", markdown)
    if PRESETS in markdown:
        markdown = markdown.replace(PRESETS, presets())
    return markdown.replace(DECISIONS, decisions(Path(config.docs_dir)))


def decisions(docs: Path) -> str:
    """Return the list of the ADRs, by number."""
    pages = sorted((docs / "adr").glob("[0-9]*.md"))
    titles = [page.read_text().splitlines()[0].lstrip("# ") for page in pages]
    return "\n".join(f"- [{title}]({page.name})" for title, page in zip(titles, pages, strict=True))


def presets() -> str:
    """Return a table for each method: environments, and the fields that their presets set."""
    from drumline.recipes.methods import METHODS

    parts = []
    for name, method in METHODS.items():
        variants = {"": dict(getattr(method.config, "PRESETS", {}))}
        if hasattr(method.config, "OBJECTIVE"):
            variants[""]["any `--objective`"] = method.config.OBJECTIVE
        variants |= getattr(method.config, "VARIANTS", {})
        rows = [
            f"| {env_id} | {f'`--preset {variant}`' if variant else ''} | {_fields(fields)} |"
            for variant, of_env in variants.items()
            for env_id, fields in of_env.items()
        ]
        if rows:
            parts += [f"## {name}", "", "| environment | | settings |", "|---|---|---|", *rows, ""]
    return "\n".join(parts)


def _fields(fields: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}` {_value(value)}" for name, value in fields.items())


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return "-".join(map(str, value))
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value).lower() if isinstance(value, bool) else str(value)
