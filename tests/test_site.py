"""The site builds without a warning, loads nothing from the network, and has no broken link."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="the extra `dev` is not installed")

ROOT = Path(__file__).parents[1]
LOADED = re.compile(
    r"""<(?:script|img|link(?=[^>]*stylesheet))[^>]*(?:src|href)=["']?(https?:[^"' >]+)"""
)
"""Scripts, pictures and styles that a page loads from elsewhere."""


def build(place: Path, source: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(place)],
        cwd=source,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site")
    built = build(place)
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return place


def test_every_page_of_the_docs_is_a_page_of_the_site(site: Path):
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    assert len(pages) > 30
    for page in pages:
        assert (site / page.with_suffix(".html")).is_file(), page


def test_pages_load_nothing_from_the_network(site: Path):
    for page in site.rglob("*.html"):
        assert not LOADED.findall(page.read_text()), page


def test_the_reference_has_the_words_of_the_docstrings(site: Path):
    words = (site / "api.html").read_text()
    assert "Train a config and return its run" in words
    for name in ("ES", "HTS", "AES", "OpenAIES", "Run"):
        assert f">{name}<" in words or f"{name}</span>" in words, name


def test_the_page_of_presets_has_those_of_the_methods():
    namespace = runpy.run_path(str(ROOT / "docs" / "_site" / "presets.py"))
    page = (ROOT / "docs" / "presets.md").read_text()
    assert namespace["filled"](page) == page, "python docs/_site/presets.py"
    assert "HalfCheetah-v5" in page


def test_a_broken_link_fails_the_build(tmp_path: Path):
    source = tmp_path / "source"
    (source / "docs" / "_site").mkdir(parents=True)
    (source / "mkdocs.yml").write_text((ROOT / "mkdocs.yml").read_text().split("nav:")[0])
    hooks = (ROOT / "docs" / "_site" / "hooks.py").read_text()
    (source / "docs" / "_site" / "hooks.py").write_text(hooks)
    (source / "docs" / "index.md").write_text("[nowhere](nowhere.md), [code](../src/none.py)\n")
    built = build(tmp_path / "site", source)
    assert built.returncode != 0
    assert "nowhere.md" in built.stderr
    assert "src/none.py" in built.stderr
