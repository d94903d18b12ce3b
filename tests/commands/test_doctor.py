"""What doctor says about a machine and a method, and what it refuses."""

import json

import pytest
from typed_commands import Terminal

from drumline.commands import timings


@pytest.fixture(autouse=True)
def briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timings, "SECONDS", 0.01)
    monkeypatch.setattr(timings.seconds_each, "__defaults__", (0.01,))


def test_without_an_environment_the_machine_alone_is_described(terminal: Terminal):
    ended = terminal("doctor", "--json")
    assert ended.code == 0, ended.err
    answer = json.loads(ended.out)
    assert answer["measured"] is None
    assert answer["machine"]["cores_available"] >= 1
    assert answer["machine"]["packages"]["torch"]


@pytest.mark.parametrize("method", ["hts", "a2c", "impala", "es", "ars", "td3"])
def test_every_method_gets_a_prediction_and_a_bottleneck(terminal: Terminal, method: str):
    ended = terminal("doctor", "CartPole-v1", "--method", method, "--json")
    assert ended.code == 0, ended.err
    measured = json.loads(ended.out)["measured"]
    assert all(row["env_steps_per_second"] > 0 for row in measured["predicted"])
    assert measured["bottleneck"] in ("environment", "forward", "learner", "cores")
    assert set(measured["virtual_costs"]) == (
        {"env_step_cost", "actor_step_cost", "critic_step_cost"} if method == "td3" else set()
    )


def test_measured_costs_stand_beside_those_of_the_virtual_clock(terminal: Terminal):
    ended = terminal("doctor", "CartPole-v1", "--method", "aes", "--json")
    assert ended.code == 0, ended.err
    costs = json.loads(ended.out)["measured"]["virtual_costs"]
    assert list(costs) == ["env_step_cost", "actor_step_cost", "critic_step_cost"]
    for row in costs.values():
        assert row["measured_microseconds"] > 0
        assert row["preset_microseconds"] > 0


def test_a_factory_of_ones_own_is_measured_and_the_next_command_is_printed(terminal: Terminal):
    ended = terminal("doctor", "impure_environment:Counting", "--method=es")
    assert ended.code == 0, ended.err
    assert "next: drumline train es impure_environment:Counting --workers" in ended.out


@pytest.mark.parametrize("method", ["hts", "td3"])
def test_a_precision_is_timed_and_typed_in_the_next_command(terminal: Terminal, method: str):
    words = ("doctor", "CartPole-v1", f"--method={method}", "--bf16")
    ended = terminal(*words)
    assert ended.code == 0, ended.err
    assert f"next: drumline train {method} CartPole-v1 --precision bf16 --workers" in ended.out
    assert json.loads(terminal(*words, "--json").out)["measured"]["precision"] == "bf16"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["CartPol-v1"], "did you mean CartPole-v1"),
        (["CartPole-v1", "more"], "one ENV"),
        (["--method=est"], "did you mean es"),
        (["CartPole-v1", "--method=es", "--bf16"], "es takes no gradients"),
    ],
)
def test_what_cannot_be_measured_is_named(terminal: Terminal, words: list[str], said: str):
    ended = terminal("doctor", *words)
    assert ended.code == 2
    assert said in ended.err
