"""Processes with one of EnvPool's families alone: the same bits, without the others' imports."""

import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from campaigns import cases
from whole_runs import run_on

from drumline.envs import envpool_package
from drumline.envs.environment import EnvironmentSpec
from drumline.envs.envpool_package import family_of
from drumline.protocols import Probe, PublishedLayout
from drumline.recipes.es import ES
from drumline.recipes.hts import HTS
from drumline.runtime.inline_pool import InlinePool
from drumline.runtime.process_pool import ProcessPool
from drumline.training.layout import RotationLayout, SearchLayout
from drumline.workers.one_family import OneFamily, for_own_process
from drumline.workers.random_episode import RandomEpisodeSpec

OF_FAMILIES = {
    "envpool.atari": "Pong-v5",
    "envpool.box2d": "LunarLander-v3",
    "envpool.classic_control": "CartPole-v1",
    "envpool.gfootball": "gfootball/academy_empty_goal_close-v1",
    "envpool.mujoco.gym": "HalfCheetah-v4",
    "envpool.toy_text": "Catch-v0",
}
LATE = "envpool.jumanji"
"""The family that takes longest to import: it draws with Matplotlib."""


@pytest.mark.parametrize(
    ("family", "env_id"),
    cases(OF_FAMILIES.items(), quick=[("envpool.classic_control", "CartPole-v1")]),
)
def test_an_episode_has_the_same_bits_with_one_family_and_with_all(family: str, env_id: str):
    spec = EnvironmentSpec(env_id, "envpool")
    episodes = RandomEpisodeSpec(spec, steps=40)
    alone = for_own_process(episodes, spec)
    assert alone == OneFamily(episodes, family)
    with closing(InlinePool(episodes, published=PublishedLayout({}))) as pool:
        pool.submit([7])
        (here,) = pool.completed()
    with closing(ProcessPool(alone, size=1, published=PublishedLayout({}))) as pool:
        pool.submit([7])
        (there,) = pool.completed()
    assert there.result == here.result


def test_gymnasiums_environments_and_objectives_have_the_factory_itself():
    episodes = RandomEpisodeSpec(EnvironmentSpec("CartPole-v1"), steps=1)
    assert for_own_process(episodes, episodes.environment) is episodes
    assert for_own_process(episodes, None) is episodes


WITH_ONE = """
import sys
from drumline.envs.envpool_package import envpool_with, import_family
import_family("envpool.classic_control")
assert "matplotlib" not in sys.modules
assert "envpool.entry" not in sys.modules, "a package of that name would hide the true one"
few = envpool_with("CartPole-v1").list_all_envs()
assert "Pong-v5" not in few
many = envpool_with("Pong-v5").list_all_envs()
assert set(few) < set(many)
import_family("envpool.atari")
import_family("")
try:
    envpool_with("Pang-v5")
except ValueError as error:
    print(error)
"""


def test_another_familys_id_is_found_all_the_same_and_an_unknown_one_refused():
    done = subprocess.run(
        [sys.executable, "-c", WITH_ONE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "EnvPool has no environment 'Pang-v5'; did you mean" in done.stdout


def test_a_family_is_empty_where_the_package_does_not_tell_it(monkeypatch: pytest.MonkeyPatch):
    assert family_of("Pong-v5") == "envpool.atari"
    other = SimpleNamespace(registration=SimpleNamespace())
    monkeypatch.setattr(envpool_package, "envpool_with", lambda env_id: other)
    assert family_of("Pong-v5") == ""


WITHOUT = """
from drumline.envs.envpool_package import envpool_with, import_family
import_family("envpool.of_another_version")
envpool_with("CartPole-v1").make_spec("CartPole-v1")
"""


def test_a_family_that_this_version_lacks_leaves_the_search_among_all():
    subprocess.run([sys.executable, "-c", WITHOUT], check=True)


@dataclass(frozen=True)
class ImportsSeen:
    """Probe factory: a process that is built writes whether it has all families."""

    path: Path

    def __call__(self) -> Probe:
        def probe(point: str) -> None:
            if point in ("role-built", "worker-built"):
                seen = f"{point} {'envpool' in sys.modules} {LATE in sys.modules}\n"
                with self.path.open("a") as file:
                    file.write(seen)

        return probe


@pytest.mark.parametrize(
    ("config", "layout", "point"),
    [
        (
            HTS(env="CartPole-v1", engine="envpool", total_steps=64, num_envs=2, alpha=16),
            RotationLayout(executors=2, tensorboard=False),
            "role-built",
        ),
        (
            ES(env="CartPole-v1", engine="envpool", total_steps=100, population_size=4),
            SearchLayout(workers=2, tensorboard=False),
            "worker-built",
        ),
    ],
    ids=["hts", "es"],
)
def test_a_runs_processes_import_the_family_of_its_environment_alone(
    tmp_path: Path, config: Any, layout: Any, point: str
):
    small = replace(config, hidden=(8,), evaluate_every=0, evaluate_episodes=1)
    seen = tmp_path / "seen"
    run_on(tmp_path / "run", small, layout, ImportsSeen(seen))
    assert set(seen.read_text().splitlines()) == {f"{point} True False"}
