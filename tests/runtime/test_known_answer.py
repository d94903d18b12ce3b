"""NumPy's known answer: a child that computes other bits than its driver is refused."""

import subprocess
import sys
from pathlib import Path

import doubles
import pytest

from drumline.api.run import train
from drumline.errors import WorkerError
from drumline.protocols import PublishedLayout
from drumline.recipes.hts import HTS
from drumline.runtime.known_answer import numpy_answer, refuse_other_bits
from drumline.runtime.process_pool import ProcessPool

PRINTS = "from drumline.runtime.known_answer import numpy_answer; print(numpy_answer(), end='')"
OTHER = "OPENBLAS_CORETYPE", "Prescott"
"""A variable and a value with which NumPy computes other bits, on processors of today."""


def answer_of_another_process() -> str:
    return subprocess.run(
        [sys.executable, "-c", PRINTS], capture_output=True, text=True, check=True
    ).stdout


@pytest.fixture
def changed_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other kernels in processes that are started from now on."""
    monkeypatch.setenv(*OTHER)
    if answer_of_another_process() == numpy_answer():
        pytest.skip("OPENBLAS_CORETYPE chooses no other kernels here")


def test_every_process_gives_the_same_answer():
    assert answer_of_another_process() == numpy_answer()
    refuse_other_bits(numpy_answer())
    refuse_other_bits("")


def test_another_answer_is_refused():
    with pytest.raises(RuntimeError, match=r"OPENBLAS_CORETYPE .* Set it before Python starts"):
        refuse_other_bits("another")


@pytest.mark.usefixtures("changed_variable")
def test_a_pool_refuses_workers_that_compute_other_bits():
    pool = ProcessPool(doubles.echo_worker, size=1, published=PublishedLayout({}))
    try:
        pool.submit([1])
        with pytest.raises(WorkerError, match="NumPy computes other bits in this new process"):
            pool.completed()
    finally:
        pool.close()
    unchecked = ProcessPool(doubles.echo_worker, size=1, published=PublishedLayout({}), answer="")
    try:
        unchecked.submit([1])
        assert unchecked.completed()[0].task == 1
    finally:
        unchecked.close()


@pytest.mark.usefixtures("changed_variable")
def test_a_crew_refuses_roles_that_compute_other_bits(tmp_path: Path):
    config = HTS(env="CartPole-v1", total_steps=64, num_envs=2, alpha=16, hidden=(4,))
    with pytest.raises(WorkerError, match="NumPy computes other bits in this new process"):
        train(config, workers=1, out=tmp_path / "run")
