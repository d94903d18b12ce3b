"""Text from a run folder, made inert for a terminal, a Markdown page and a picture."""

import re

_SPACES = "\u00a0\u2009\u202f\u3000"
_MARKUP = re.compile(r"[\\`*<|~$]|(?<![^\W_])_|_(?![^\W_])|\](?=[\[(:])")
"""Characters that begin or end markup within a line; an underscore within a word does not."""

_BLOCK = re.compile(r"(?=[#>=+-])|(?<=\d)(?=[.)])")
"""Places in a line's first word before which a backslash undoes a heading, quotation or list."""


def visible(text: object, *, lines: bool = False) -> str:
    r"""Return text in which escape sequences, control characters and changes of direction are seen.

    With `lines`, line breaks and tabs stay.

    >>> visible("\x1b[2Jred\u202e")
    '\\x1b[2Jred\\u202e'
    """
    kept = _SPACES + ("\n\t" if lines else "")
    whole = str(text)
    if whole.isprintable():
        return whole
    return "".join(c if c.isprintable() or c in kept else _escaped(c) for c in whole)


def markdown(text: object) -> str:
    r"""Return text for within a line of Markdown, where it makes no markup.

    >>> markdown("<script> snake_case _x_ [a](b)")
    '\\<script> snake_case \\_x\\_ [a\\](b)'
    """
    return _MARKUP.sub(r"\\\g<0>", visible(text))


def markdown_paragraph(text: object) -> str:
    r"""Return text for a line of Markdown of its own, where it makes no heading or list.

    >>> markdown_paragraph("# large"), markdown_paragraph("1. item")
    ('\\# large', '1\\. item')
    """
    first, space, rest = markdown(text).strip().partition(" ")
    return _BLOCK.sub(r"\\", first, count=1) + space + rest


def plot_label(text: object) -> str:
    r"""Return text for a label in a picture: no formula, and never left out of a legend.

    >>> plot_label("$\\alpha$"), plot_label("_run")
    ('\\$\\alpha\\$', ' _run')
    """
    label = visible(text).replace("$", r"\$")
    return f" {label}" if label.startswith("_") else label


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
