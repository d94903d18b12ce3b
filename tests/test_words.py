"""Docstrings and comments in plain words: what a thing is, and a name for every process."""

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "drumline"
ROOMS = (
    "__init__.py",
    "__main__.py",
    "algorithms",
    "buffers",
    "cli.py",
    "commands",
    "crew_protocols.py",
    "display",
    "envs",
    "errors.py",
    "functional",
    "policies",
    "populations",
    "protocols.py",
    "recipes",
    "runs",
    "runtime",
    "schedules",
    "seeding.py",
    "stores",
    "tasks.py",
    "training",
    "types.py",
    "workers",
)
BESIDE = tuple(ROOT / name for name in ("tests", "benchmarks", "examples"))
OPENING = re.compile(r"(what|who|whose|whom|how)\b", re.IGNORECASE)
OPENED = re.compile(r'"""\s*' + OPENING.pattern, re.IGNORECASE)
NAMELESS = re.compile(
    r"\b(who|whom|whoever|nobody|everybody|anybody|somebody|everyone|anyone|someone|no one)\b",
    re.IGNORECASE,
)
OUTSIDE = re.compile(r"\b(DESIGN|[Ss]pecs?) §|\bDESIGN\.md\b|\bspecs/")


def files_of(room: str) -> list[Path]:
    path = SOURCE / room
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    assert files, f"src/drumline has no {room}: correct the list of rooms"
    return files


def files_beside() -> list[Path]:
    """Return the files of tests, benchmarks and examples, without this one, which has examples."""
    files = [file for path in BESIDE for file in sorted(path.rglob("*.py"))]
    return [file for file in files if file != Path(__file__)]


def docstrings(text: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(words))):
                yield node.lineno, words
            case _:
                pass


def comments(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def strings(text: str) -> Iterator[tuple[int, str]]:
    """Yield every string, docstrings and parts of f-strings included."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def openings(files: Iterable[Path]) -> list[str]:
    return [
        f"{file.relative_to(ROOT)}:{line}: {words.strip().splitlines()[0]}"
        for file in files
        for line, words in docstrings(file.read_text())
        if OPENING.match(words.strip())
    ]


def found(files: Iterable[Path], pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{file.relative_to(ROOT)}:{line}: {' '.join(words.split())}"
        for file in files
        for text in [file.read_text()]
        for line, words in [*strings(text), *comments(text)]
        if pattern.search(words)
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_no_docstring_opens_with_a_question_word(room: str):
    wrong = openings(files_of(room))
    assert not wrong, "begin with a noun or a verb:\n" + "\n".join(wrong)


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_comments_and_messages_name_the_process(room: str):
    wrong = found(files_of(room), NAMELESS)
    assert not wrong, "say driver, worker, executor, actor, learner, caller …:\n" + "\n".join(wrong)


@pytest.mark.parametrize("room", ROOMS)
def test_no_docstring_or_comment_refers_to_a_document_outside_the_repository(room: str):
    wrong = found(files_of(room), OUTSIDE)
    assert not wrong, "\n".join(wrong)


def test_tests_benchmarks_and_examples_use_plain_words_too():
    files = files_beside()
    assert len(files) > 200
    wrong = openings(file for file in files if OPENED.search(file.read_text()))
    for file in files:
        text = file.read_text()
        if not NAMELESS.search(text):
            continue  # the parser takes seconds for all of them
        wrong += [
            f"{file.relative_to(ROOT)}:{line}: {words}"
            for line, words in [*docstrings(text), *comments(text)]
            if NAMELESS.search(words)
        ]
    assert not wrong, "\n".join(wrong)


def test_a_room_that_does_not_exist_is_an_error():
    with pytest.raises(AssertionError, match="no attic"):
        files_of("attic")


def test_the_patterns_find_what_they_are_for():
    (_, opening), *_ = docstrings('"""What is fixed for a run."""\n')
    assert OPENING.match(opening)
    assert not OPENING.match("However many there are")
    assert NAMELESS.search("# Nobody waits for the disk")
    assert not NAMELESS.search("# the whole")
    assert OUTSIDE.search("exact restore (DESIGN §8)")
    assert OUTSIDE.search("noise in pairs (spec §1.4)")
