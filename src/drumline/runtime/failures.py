"""Exceptions on their way from a worker to the caller of `completed`."""

import pickle
import traceback
from typing import Any, NoReturn

from drumline.errors import WorkerError, words_of
from drumline.runtime.messages import Failure


def packed(error: BaseException) -> Failure:
    """Return the message about an exception: its text, and itself if it pickles."""
    text = "".join(traceback.format_exception(error))
    try:
        exception = pickle.dumps(error, protocol=5)
    except Exception:  # noqa: BLE001 - an exception may hold anything; its text is enough
        exception = None
    return Failure(words_of(error), text, exception)


def unpacked(task: Any, failure: Failure) -> WorkerError:
    """Return the exception for the caller."""
    cause: BaseException | None = None
    if failure.exception is not None:
        try:
            cause = pickle.loads(failure.exception)
        except Exception:  # noqa: BLE001 - many exceptions pickle but do not unpickle; the text remains
            cause = None
    return WorkerError(task, failure.error, failure.traceback, cause)


def unreadable(task: Any, error: Exception) -> WorkerError:
    """Return the exception for the caller if a result arrived but does not unpickle."""
    name = f"its result cannot be read: {words_of(error)}"
    return WorkerError(task, name, "".join(traceback.format_exception(error)), error)


def raised(error: Exception) -> NoReturn:
    """Raise as the driver's error, with the worker's own exception as its cause."""
    raise error from getattr(error, "cause", None)
