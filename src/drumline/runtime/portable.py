"""Pickling for another process, which has another `__main__`."""

import io
import pickle
from types import FunctionType
from typing import Any

_REFUSAL = (
    "{name} lives in __main__, which a worker process cannot import; "
    'put it into a module, or use workers="inline"'
)


def by_reference(value: object, what: str) -> bytes:
    """Pickle a callable and its contents; ValueError if another process cannot import them."""
    try:
        return _checked(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            f"{what} {value!r} cannot be sent to a worker process ({error}); "
            'put it into a module, or use workers="inline"'
        ) from error


def quickly(value: object) -> bytes:
    """Pickle frequent messages: the search for `__main__` runs only if its name occurs."""
    payload = pickle.dumps(value, protocol=5)
    return _checked(value) if b"__main__" in payload else payload


def _checked(value: object) -> bytes:
    stream = io.BytesIO()
    _Refusing(stream, protocol=5).dump(value)
    return stream.getvalue()


class _Refusing(pickle.Pickler):
    """Pickler that refuses classes and functions of `__main__`, however deep inside the value."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type | FunctionType) and obj.__module__ == "__main__":
            raise ValueError(_REFUSAL.format(name=obj.__qualname__))
        return NotImplemented
