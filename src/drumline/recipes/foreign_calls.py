"""Calls of a method's code from outside: every error becomes one sentence."""

from collections.abc import Callable
from typing import Any

from drumline.errors import raised

CONFIG = "making its config"
"""Call of a config's class, whose `__post_init__` refuses values."""


def called(name: str, doing: str, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Return the call's result; raises `ValueError` with the method's name for any error."""
    try:
        return call(*arguments, **named)
    except MemoryError:
        raise
    except (Exception, SystemExit) as error:
        sentence = as_sentence(name, doing, error)
        if sentence is error:
            raise
        raise sentence from error


def as_sentence(name: str, doing: str, error: BaseException) -> ValueError:
    """Return one sentence of an error, with the line that raised it.

    A `ValueError` of Drumline's, or about a config's fields, is clear without that line.
    """
    if isinstance(error, ValueError) and _raised_by_drumline(error):
        return error
    if isinstance(error, ValueError) and doing == CONFIG:
        return ValueError(f"{name}: {' '.join(str(error).split())}")
    return ValueError(f"{name}: {doing} raised {raised(error, __file__)}")


def _raised_by_drumline(error: BaseException) -> bool:
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    module = "" if last is None else last.tb_frame.f_globals.get("__name__", "")
    return module.startswith("drumline.") and module != __name__
