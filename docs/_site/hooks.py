"""Hooks of the site: source files that pages link to become files of it, and ADRs get a list."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
OUTSIDE = re.compile(r"\]\((?:\.\./)+((?:src|examples|tests|benchmarks)/[^)#]+)\)")
"""A link from a page to a file of the repository outside docs/."""
DECISIONS = "<!-- decisions -->"


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
    return markdown.replace(DECISIONS, decisions(Path(config.docs_dir)))


def decisions(docs: Path) -> str:
    """Return the list of the ADRs, by number."""
    pages = sorted((docs / "adr").glob("[0-9]*.md"))
    titles = [page.read_text().splitlines()[0].lstrip("# ") for page in pages]
    return "\n".join(f"- [{title}]({page.name})" for title, page in zip(titles, pages, strict=True))
