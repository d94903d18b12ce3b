"""Packages that an environment's bits depend on."""

import sys

import pytest

from drumline.envs.environment import EnvironmentSpec
from drumline.envs.make import make_environment
from drumline.envs.packages import environment_packages, top_package


@pytest.mark.parametrize(
    ("env_id", "engine", "packages"),
    [
        ("CartPole-v1", "gymnasium", ()),
        ("HalfCheetah-v5", "gymnasium", ("mujoco",)),
        ("LunarLander-v3", "gymnasium", ("box2d", "box2d-py")),
        ("HalfCheetah-v4", "envpool", ("envpool",)),
    ],
)
def test_an_environments_packages_follow_from_where_it_is_defined(env_id, engine, packages):
    assert environment_packages(env_id, engine) == packages


def test_an_atari_environments_pixels_depend_on_what_shrinks_them():
    make_environment(EnvironmentSpec("ALE/Pong-v5")).environment.close()
    packages = environment_packages("ALE/Pong-v5", "gymnasium")
    assert packages == ("ale-py", "opencv-python-headless", "opencv-python")


def test_an_own_environment_depends_on_its_package_and_the_engines_that_it_loaded(monkeypatch):
    for module in ("mujoco", "Box2D", "ale_py"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    assert environment_packages("mine.worlds:make", "gymnasium") == ("mine",)
    monkeypatch.setitem(sys.modules, "mujoco", sys)
    assert environment_packages("mine.worlds:make", "gymnasium") == ("mine", "mujoco")


def test_the_top_package_is_the_outermost():
    assert top_package("a.b:c") == "a"
