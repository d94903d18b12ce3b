"""Records of one class in a message: columns, and the class once.

A NamedTuple is pickled with two calls of Python for each record, and its moments with two more.
In columns they take a third of the time to write and half of it to read.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeGuard

from drumline.types import maker


class Columnar(Protocol):
    """A class whose values can travel together in another form."""

    @classmethod
    def together(cls, values: Sequence[Any]) -> object:
        """Return the values in one object that pickles; None if these cannot be put together."""
        ...

    @classmethod
    def apart(cls, packed: Any) -> Iterable[Any]:
        """Return equal values in their order."""
        ...


class Records(NamedTuple):
    """Records of one NamedTuple class."""

    kind: type[tuple[Any, ...]]
    columns: list[Any]
    """One for each field: its values, or what `together` made of them."""
    columnar: dict[int, type[Columnar]]
    """Field → class of the values that are put together."""


def packed_records(values: Sequence[Any]) -> Sequence[Any] | Records:
    """Return two or more values of one NamedTuple class as records, and others as they are."""
    kinds: set[type[Any]] = set(map(type, values))
    if len(values) < 2 or len(kinds) > 1:
        return values
    kind = kinds.pop()
    if not _is_plain(kind) or not values[0]:  # without fields there is no column to count them by
        return values
    columns: list[Any] = list(zip(*values, strict=True))
    columnar: dict[int, type[Columnar]] = {}
    for place, column in enumerate(columns):
        of_value: Any = column[0].__class__
        if hasattr(of_value, "together") and set(map(type, column)) == {of_value}:
            together = of_value.together(column)
            if together is not None:
                columns[place], columnar[place] = together, of_value
    return Records(kind, columns, columnar)


def unpacked_records(values: Sequence[Any] | Records) -> Sequence[Any]:
    """Return the values that were packed."""
    if not isinstance(values, Records):
        return values
    columns = list(values.columns)
    for place, kind in values.columnar.items():
        columns[place] = kind.apart(columns[place])
    return list(map(maker(values.kind), zip(*columns, strict=True)))


def _is_plain(kind: type) -> TypeGuard[type[tuple[Any, ...]]]:
    """Return whether the fields are all that values of a class have: a NamedTuple, not derived."""
    return (
        kind.__bases__ == (tuple,)
        and hasattr(kind, "_fields")
        and kind.__dictoffset__ == 0
        and kind.__reduce__ is object.__reduce__
        and kind.__reduce_ex__ is object.__reduce_ex__
    )
