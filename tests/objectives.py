"""Objectives for tests: plain functions, some of which break the rules. It imports no torch."""

import itertools
import math
import os
import signal
import sys
from contextlib import suppress

import numpy as np

PLACE = "objectives"
TARGET = np.linspace(-1.0, 1.0, 6).astype(np.float32)


def noisy_sphere(parameters: np.ndarray, seed: int) -> float:
    """−‖θ − target‖², with noise of the seed; it overwrites what it is given."""
    noise = 0.01 * np.random.default_rng(seed).standard_normal()
    parameters -= TARGET
    return float(noise - np.square(parameters).sum())


def global_noise(parameters: np.ndarray, seed: int) -> float:
    """Noise of NumPy's global generator, which the worker seeds."""
    return float(np.random.standard_normal() - np.square(parameters).sum())


def batch_of_seeds(parameters: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """One value for each seed: the target moves with it."""
    shifts = np.array([np.random.default_rng(seed).standard_normal(6) for seed in seeds])
    return -np.square(parameters - TARGET - 0.1 * shifts).sum(axis=1)


def torch_is_there(parameters: np.ndarray, seed: int) -> float:
    """1 where a process has imported torch."""
    return float("torch" in sys.modules)


_calls = itertools.count()


def remembers(parameters: np.ndarray, seed: int) -> float:
    """Another value at every call."""
    return float(next(_calls))


def interrupted_once(parameters: np.ndarray, seed: int) -> float:
    """Another value at every call; its first call, of all processes, is where Ctrl-C comes."""
    with suppress(FileExistsError):
        os.close(os.open(os.environ["INTERRUPTED"], os.O_CREAT | os.O_EXCL))
        os.kill(os.getpid(), signal.SIGINT)
    return float(next(_calls))


def of_the_process(parameters: np.ndarray, seed: int) -> float:
    """Not a function of its arguments: the same in a process, and another in the next one."""
    return float(os.getpid()) - float(parameters @ parameters)


_first = [0.0]


def another_first_value(parameters: np.ndarray, seed: int) -> float:
    """Not a function of its arguments in the first call of each process."""
    value, _first[0] = float(len(_first)) if _first[0] else -1.0, 1.0
    return value - float(parameters @ parameters)


def not_a_number(parameters: np.ndarray, seed: int) -> float:
    return math.nan


def lowest(parameters: np.ndarray, seed: int) -> float:
    """A penalty that is the least of all numbers."""
    return float(np.finfo(np.float64).min)


def endless(parameters: np.ndarray, seed: int) -> float:
    return math.inf


def an_array(parameters: np.ndarray, seed: int) -> np.ndarray:
    return parameters


def a_text(parameters: np.ndarray, seed: int) -> str:
    return "1.5"


def nothing(parameters: np.ndarray, seed: int) -> None:
    return None


def a_numpy_number(parameters: np.ndarray, seed: int) -> np.float32:
    return np.float32(0.5)


def raises(parameters: np.ndarray, seed: int) -> float:
    raise KeyError("weights")


def without_seed(parameters: np.ndarray) -> float:
    return 0.0


NOT_A_FUNCTION = 3.0


def start(seed: int) -> np.ndarray:
    """First parameters that follow the seed."""
    return np.random.default_rng(seed).standard_normal(6)


def square_start(seed: int) -> np.ndarray:
    return np.zeros((2, 3))


def complex_start(seed: int) -> np.ndarray:
    return np.full(3, 1j)


def infinite_start(seed: int) -> np.ndarray:
    return np.full(6, np.inf)


def catches_everything(parameters: np.ndarray, seed: int) -> float:
    """A low number where anything goes wrong; Ctrl-C comes once, in its fifth call."""
    fitness = noisy_sphere(parameters, seed)
    try:
        if next(_calls) == 5 and os.environ.get("INTERRUPTED"):
            os.environ["INTERRUPTED"] = ""
            os.kill(os.getpid(), signal.SIGINT)
    except:  # noqa: E722 - as users write it
        return -1e9
    return fitness
