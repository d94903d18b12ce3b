"""Every example runs and does what it says."""

import runpy
from pathlib import Path

import pytest

import drumline
from drumline.commands.environment_checks import EnvironmentChecks
from drumline.envs.environment import EnvironmentSpec
from drumline.protocols import Unwatched

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.mark.usefixtures("unchecked_shapes")
def test_ask_and_tell_find_the_target(capsys: pytest.CaptureFixture[str]):
    found = runpy.run_path(str(EXAMPLES / "ask_tell.py"))
    assert abs(found["strategy"].parameters - found["TARGET"]).max() < 0.15
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["OpenAIES", "ARS"]


@pytest.mark.usefixtures("unchecked_shapes")
def test_the_example_environment_passes_every_check_and_is_learned(tmp_path: Path):
    spec = EnvironmentSpec("my_envs:Reach")
    checked = EnvironmentChecks(spec, 60, 0.5, Unwatched()).run()
    timed = ("speed", "threads")  # on a busy machine these say anything
    said = [f for f in checked.findings if f.check not in timed and f.verdict != "ok"]
    assert not said, said
    config = drumline.ES(
        env="my_envs:Reach", total_steps=20_000, hidden=(), noise_table_size=4096, normalize=False
    )
    first, *_, last = drumline.train(config, workers="inline", out=tmp_path / "run").metrics
    assert last["episode_return_mean"] > first["episode_return_mean"] + 5.0
