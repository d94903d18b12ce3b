"""Sentences of doctor about a machine and a method, and its refusals."""

import json
import os
from pathlib import Path

import pytest
from typed_commands import TINY, Terminal

from drumline.commands import device_facts, timings
from drumline.functional import torch_devices
from drumline.runtime.machine_limits import MachineLimits


@pytest.fixture(autouse=True)
def briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timings, "SECONDS", 0.01)


def test_without_an_environment_the_machine_alone_is_described(terminal: Terminal):
    ended = terminal("doctor", "--json")
    assert ended.code == 0, ended.err
    answer = json.loads(ended.out)
    assert answer["measured"] is None
    assert answer["machine"]["cores_available"] >= 1
    assert answer["machine"]["packages"]["torch"]


def in_a_container_of_two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = MachineLimits(1.5, "/groups/cpu.max", 2**30, "/groups/memory.max", 2**29, 2**40)
    for room in ("runtime.cores", "runtime.shared_arrays", "commands.machine_facts"):
        monkeypatch.setattr(f"drumline.{room}.machine_limits", lambda root: limits)
    monkeypatch.setattr(os, "cpu_count", lambda: 96)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(96)), raising=False)


def test_the_bounds_of_a_container_are_named(terminal: Terminal, monkeypatch: pytest.MonkeyPatch):
    in_a_container_of_two_cores(monkeypatch)
    ended = terminal("doctor")
    assert "2 of 96 available, by the CPU quota of 1.5 in /groups/cpu.max" in ended.out
    assert "memory      0.5 of " in ended.out
    assert "by the limit of 1.0 in /groups/memory.max" in ended.out


def test_a_training_in_a_container_starts_a_worker_per_granted_core_and_says_so(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
):
    in_a_container_of_two_cores(monkeypatch)
    ended = terminal("train", "es", "CartPole-v1", *TINY, "--pool=process", "--out=run")
    bound = "2 of 96, by the CPU quota of 1.5 in /groups/cpu.max"
    assert f"seed 0, 2 workers; cores: {bound}" in ended.out.splitlines()[0]
    assert json.loads(Path("run/config.json").read_text())["layout"]["cores"] == bound
    assert len(Path("run/processes.csv").read_text().splitlines()) == 1 + 2
    assert f"| cores | {bound} |" in Path("run/card.md").read_text()


def test_a_machine_without_the_promise_is_told_apart_everywhere(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert "! no promise of the same bits: this machine is aarch64" in terminal("doctor").out
    assert terminal("train", "es", "CartPole-v1", *TINY, "--out=run").code == 0
    promise = json.loads(Path("run/config.json").read_text())["promise"]
    assert promise.startswith("no promise: this machine is aarch64")
    assert Path("run/card.md").read_text().startswith(promise)
    verified = terminal("verify", "run")
    assert verified.code == 2
    assert "no promise" in verified.err


@pytest.mark.parametrize("method", ["hts", "a2c", "impala", "es", "ars"])
def test_every_method_gets_a_prediction_and_a_bottleneck(terminal: Terminal, method: str):
    ended = terminal("doctor", "CartPole-v1", "--method", method, "--json")
    assert ended.code == 0, ended.err
    measured = json.loads(ended.out)["measured"]
    assert all(row["env_steps_per_second"] > 0 for row in measured["predicted"])
    assert measured["bottleneck"] in ("environment", "forward", "learner", "cores")
    assert not measured["virtual_costs"]


@pytest.mark.parametrize(
    ("method", "env", "steps"),
    [("hts", "CartPole-v1", 40), ("ppo", "HalfCheetah-v5", 40), ("a2c", "CartPole-v1", 1)],
)
def test_the_timed_update_takes_all_gradient_steps_of_a_training(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, method: str, env: str, steps: int
):
    each, counted = timings.seconds_each, []
    monkeypatch.setattr(
        timings, "seconds_each", lambda piece: counted.append(piece()) or each(piece)
    )
    ended = terminal("doctor", env, "--method", method, "--json")
    assert ended.code == 0, ended.err
    updates = [metrics for metrics in counted if isinstance(metrics, dict)]
    assert [metrics["gradient_steps"] for metrics in updates] == [steps]
    printed = terminal("train", method, env, "--print-config").out
    times = json.loads(ended.out)["measured"]["times"]
    rows = json.loads(printed)["alpha"] * json.loads(printed)["num_envs"]
    learning = times["update_seconds"] / rows
    assert times["learner_seconds_per_env_step"] == pytest.approx(learning)


@pytest.mark.parametrize(
    ("method", "env", "critic_steps", "actor_steps", "env_steps"),
    [
        ("aes", "CartPole-v1", 1.0, 5.0, 6.0),
        ("acem-rl", "Pendulum-v1", 1.0, 5.0, 6.0),
        ("cem-rl", "CartPole-v1", 1.0, 5.0, 1.0),
        ("p-cem-rl", "CartPole-v1", 1.0, 5.0, 1.1),
        ("erl", "Pendulum-v1", 1.0, 1.0, 1.0),
        ("td3", "CartPole-v1", 1.0, 0.5, 1.0),
    ],
)
def test_gradient_steps_bound_the_methods_that_take_them(
    terminal: Terminal,
    method: str,
    env: str,
    critic_steps: float,
    actor_steps: float,
    env_steps: float,
):
    ended = terminal("doctor", env, "--method", method, "--json")
    assert ended.code == 0, ended.err
    answer = json.loads(ended.out)
    measured, times = answer["measured"], answer["measured"]["times"]
    learner = critic_steps * times["critic_step_seconds"]
    learner += actor_steps * times["actor_step_seconds"]
    acting = env_steps * (times["step_seconds"] + times["forward_1_seconds"])
    assert times["learner_seconds_per_env_step"] == pytest.approx(learner)
    assert times["acting_seconds_per_env_step"] == pytest.approx(acting)
    cores = answer["machine"]["cores_available"]
    for row in measured["predicted"]:
        in_turn = min(row["workers"], cores) / (acting + learner)
        assert 0 < row["env_steps_per_second"] <= in_turn * (1 + 1e-9)
    assert measured["predicted"][0]["env_steps_per_second"] == pytest.approx(1 / (acting + learner))
    assert measured["bottleneck"] in ("actor steps", "critic steps")
    assert set(measured["virtual_costs"]) == {
        "env_step_cost",
        "actor_step_cost",
        "critic_step_cost",
    }


def test_a_process_per_logical_worker_is_recommended_where_nothing_is_faster(terminal: Terminal):
    ended = terminal("doctor", "CartPole-v1", "--method", "aes", "--json")
    measured = json.loads(ended.out)["measured"]
    assert measured["recommended"] == "--workers 6"
    assert measured["predicted"][-1]["workers"] == 6


def test_measured_costs_stand_beside_those_of_the_virtual_clock(terminal: Terminal):
    ended = terminal("doctor", "CartPole-v1", "--method", "aes", "--json")
    assert ended.code == 0, ended.err
    measured = json.loads(ended.out)["measured"]
    costs, times = measured["virtual_costs"], measured["times"]
    assert list(costs) == ["env_step_cost", "actor_step_cost", "critic_step_cost"]
    env_step = (times["step_seconds"] + times["forward_1_seconds"]) * 1e6  # no act is lost
    assert costs["env_step_cost"]["measured_microseconds"] == pytest.approx(env_step)
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


@pytest.mark.parametrize(
    ("kind", "bottlenecks", "timed", "not_timed"),
    [
        ("Generations", {"environment", "forward"}, "step_seconds", ""),
        ("Events", {"environment", "forward"}, "step_seconds", "gradient steps"),
        ("Stream", {"learner"}, "learner_seconds_per_env_step", ""),
        ("Rotation", {"environment", "forward", "learner"}, "update_seconds", ""),
    ],
)
def test_a_method_from_outside_is_timed_by_its_kind_of_recipe(
    terminal: Terminal, kind: str, bottlenecks: set[str], timed: str, not_timed: str
):
    ended = terminal("doctor", "CartPole-v1", f"--method=training.own_methods:{kind}", "--json")
    assert ended.code == 0, ended.err
    measured = json.loads(ended.out)["measured"]
    assert measured["times"][timed] > 0
    assert measured["bottleneck"] in bottlenecks
    assert measured["not_timed"] == not_timed
    acting = measured["times"]["step_seconds"] + measured["times"].get("forward_1_seconds", 0)
    for row in measured["predicted"]:
        assert 0 < row["env_steps_per_second"] <= row["workers"] / measured["times"]["step_seconds"]
    if kind == "Stream":
        each = acting + measured["times"]["learner_seconds_per_env_step"]
        assert [row["workers"] for row in measured["predicted"]] == [1]
        assert measured["predicted"][0]["env_steps_per_second"] == pytest.approx(1 / each)


def test_an_unheard_of_recipe_is_named(terminal: Terminal):
    ended = terminal("doctor", "CartPole-v1", "--method=training.own_methods:Unheard")
    assert ended.code == 2
    assert "doctor cannot time a _Recipe: it knows GenerationalRecipe" in ended.err


@pytest.mark.parametrize("method", ["es", "ars"])
def test_the_cheaper_way_to_the_next_generation_on_a_cluster_is_named(
    terminal: Terminal, method: str
):
    asked = ["--method", method, "--nodes", "8", "--node-cores", "4", "--gigabits", "0.001"]
    ended = terminal("doctor", "HalfCheetah-v5", *asked, "--json")
    assert ended.code == 0, ended.err
    cluster = json.loads(ended.out)["measured"]["cluster"]
    assert (cluster["nodes"], cluster["node_cores"]) == (8, 4)
    assert cluster["update_core_seconds"] > 0
    for name, size in (("broadcast", "parameter_bytes"), ("replicas", "scalar_bytes")):
        assert cluster[name]["bytes_sent"] == 7 * cluster[size]
        assert cluster[name]["seconds"] > 8 * cluster[name]["bytes_sent"] / 1e6
    ways = [cluster["broadcast"]["seconds"], cluster["replicas"]["seconds"]]
    assert cluster[cluster["cheaper"]]["seconds"] == min(ways)


def test_a_cluster_is_described_in_words(terminal: Terminal):
    ended = terminal("doctor", "CartPole-v1", "--method=es", "--nodes=3", "--node-cores=2")
    assert ended.code == 0, ended.err
    assert "from one generation to the next on 3 nodes of 2 cores, 10 Gbit/s:" in ended.out
    assert ended.out.count("  cheaper") == 1
    assert "    --parameters replicas" in ended.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["CartPole-v1", "--method=cem", "--nodes=2"], "a flag of es and ars, not of cem"),
        (["CartPole-v1", "--nodes=2"], "a flag of es and ars, not of hts"),
        (["--method=es", "--nodes=2"], "--nodes needs an ENV"),
        (["CartPole-v1", "--method=es", "--nodes=-1"], "--nodes must be 0 or more, got -1"),
        (["CartPole-v1", "--nodes=2", "--node-cores=-1"], "--node-cores must be 0 or more"),
        (["CartPole-v1", "--nodes=2", "--gigabits=0"], "--gigabits must be above 0, got 0"),
    ],
)
def test_an_unusable_cluster_is_refused_in_a_sentence(
    terminal: Terminal, words: list[str], said: str
):
    ended = terminal("doctor", *words)
    assert ended.code == 2
    assert said in ended.err
    assert "Traceback" not in ended.err


def test_the_absence_of_a_gpu_is_one_line(terminal: Terminal, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch_devices.torch.backends.cuda, "is_built", lambda: True)
    monkeypatch.setattr(torch_devices, "device_count", lambda: 0)
    monkeypatch.setattr(device_facts, "device_count", lambda: 0)
    said = [line for line in terminal("doctor").out.splitlines() if line.startswith("GPU")]
    assert len(said) == 1
    assert "none: torch finds no CUDA device here: look at nvidia-smi" in said[0]
    assert json.loads(terminal("doctor", "--json").out)["machine"]["devices"] == []


def test_a_device_is_named_with_its_products_and_copies(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(device_facts, "_SECONDS", 0.01)
    measured = device_facts.speeds("cpu:0", wide=64, copied=4096)
    assert measured["products_gflops"] > 0
    assert measured["to_device_gib_per_second"] >= 0
    fact = {"device": "cuda:0", "model": "A Card, CUDA 12", **measured}
    (line,) = device_facts.device_lines([fact], "")
    assert line.startswith("cuda:0      A Card, CUDA 12, 0.0 GiB; products in float32 ")
    assert line.endswith("back")
