import pickle
import sys
from functools import partial
from typing import Any

import doubles
import pytest

from drumline.runtime.portable import by_reference, quickly


class Foreign:
    """Pretends to come from a bare script."""


@pytest.fixture
def of_main(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Foreign, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "Foreign", Foreign, raising=False)
    return Foreign


def wrappings() -> list[Any]:
    return [
        lambda value: value,
        lambda value: partial(doubles.echo_worker, value),
        lambda value: {"factory": [(value,)]},
        lambda value: partial(doubles.echo_worker, options={"inner": partial(print, value)}),
    ]


@pytest.mark.parametrize("wrap", wrappings())
@pytest.mark.parametrize("make", [lambda cls: cls, lambda cls: cls()])
def test_what_lives_in_main_is_refused_however_deep_it_sits(of_main: Any, wrap: Any, make: Any):
    value = wrap(make(of_main))
    for pickled in (lambda: by_reference(value, "the worker factory"), lambda: quickly(value)):
        with pytest.raises(ValueError, match=r"Foreign lives in __main__, .* put it into a module"):
            pickled()


def test_a_lambda_is_refused_with_one_sentence():
    with pytest.raises(ValueError, match=r"the worker factory .* cannot be sent"):
        by_reference(lambda: 0, "the worker factory")


def test_a_text_about_main_is_no_reason_to_refuse():
    assert pickle.loads(quickly(["__main__", 1])) == ["__main__", 1]


def test_what_lives_in_modules_travels():
    value = partial(doubles.echo_worker, doubles.KillAt)
    assert pickle.loads(by_reference(value, "the worker factory")).args == (doubles.KillAt,)
