"""Settings of populations of evolution and gradient steps, and their effects."""

import csv
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from campaigns import cases

from drumline.api.run import train
from drumline.recipes.aes import AES, OnePlusOne
from drumline.recipes.methods import config_from, find_method, with_late_settings
from drumline.recipes.p_cem_rl import PCEMRL
from drumline.runs.checkpoint import read_checkpoint
from drumline.runs.policy_files import read_policy

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

OFF_POLICY: dict[str, Any] = {
    "replay_size": 300,
    "hidden": (4,),
    "mean_evaluations": 0,
    "critic_batches": 10,
    "evaluate_every": 0,
    "evaluate_episodes": 1,
}


def test_an_individual_that_could_not_be_refined_is_not_counted_as_refined(tmp_path: Path):
    config = AES(env="CartPole-v1", total_steps=200, warmup_steps=0, batch_size=256, **OFF_POLICY)
    run = train(config, workers="inline", out=tmp_path / "run")
    assert len(run.metrics) > 3
    assert {row["rl_share"] for row in run.metrics} == {0.5}


def test_frames_that_are_skipped_shorten_the_shortest_episode(tmp_path: Path):
    config = AES(
        env="Pendulum-v1",
        frame_skip=3,
        total_steps=400,
        warmup_steps=70,
        batch_size=8,
        **OFF_POLICY,
        env_step_cost=45_000,
        least_env_steps=200,
    )
    run = train(config, workers="inline", out=tmp_path / "run")
    with run.folder.episodes_csv.open(newline="") as lines:
        assert {row["length"] for row in csv.DictReader(lines)} == {"67"}


@pytest.mark.parametrize(
    "strategy", cases(["async-es", "cma", "sep-cma"], quick=["async-es", "cma"])
)
def test_a_linear_policy_can_be_searched_with_full_and_diagonal_covariance(
    strategy: str, tmp_path: Path
):
    if "cma" in strategy:
        pytest.importorskip("cma")
    config = AES(
        env="InvertedPendulum-v5",
        total_steps=200,
        warmup_steps=20,
        batch_size=8,
        policy="linear",
        strategy=strategy,
        **OFF_POLICY,
    )
    run = train(config, workers="inline", out=tmp_path / "run")
    assert {row["kind"] for row in run.metrics} == {0.0, 1.0, 2.0}
    assert read_policy(run.folder, "last").tensors["parameters"].shape == (4 + 1,)
    critics = read_checkpoint(run.folder).state.tensors["critics/critics"]
    assert critics.shape == (2, (4 + 1 + 1) * 4 + (4 + 1))  # of observation and action
    longer = run.resume(workers="inline", total_steps=300)
    assert longer.metrics[-1]["env_steps"] >= 300


def test_activations_are_those_of_the_policy_and_of_its_gradients(tmp_path: Path):
    config = AES(
        env="InvertedPendulum-v5", total_steps=200, warmup_steps=20, batch_size=8, **OFF_POLICY
    )
    found: dict[str, bytes] = {}
    for name, change in {
        "plain": {},
        "actor": {"activation": "relu"},
        "critics": {"critic_activation": "relu"},
    }.items():
        given: dict[str, Any] = change
        run = train(replace(config, **given), workers="inline", out=tmp_path / name)
        found[name] = run.policy.vector.tobytes()
        assert run.policy.spec.activation == given.get("activation", "tanh")
    assert len(set(found.values())) == 3


def test_older_runs_had_policies_with_hidden_layers():
    fields = asdict(AES(env="CartPole-v1"))
    del fields["policy"]
    assert config_from({"method": "aes", "config": fields}).policy == "mlp"


@pytest.mark.parametrize(
    ("method", "change", "flag"),
    [
        (AES, {"mean_rule": "rank", "variance_rule": "rank"}, "--mean-rule rank"),
        (AES, {"variance_rule": "one-fifth"}, "--variance-rule one-fifth"),
        (AES, {"kl_bound": 2.0}, "--kl-bound 2.0"),
        (AES, {"recentred": True}, "--recentred True"),
        (OnePlusOne, {}, "--mean-rule full-move"),
    ],
)
def test_rules_that_another_strategy_would_not_follow_are_refused(
    method: Any, change: dict[str, Any], flag: str
):
    method(env="CartPole-v1", **change)
    with pytest.raises(ValueError, match=f"{flag} goes with --strategy async-es: 'snes' has"):
        method(env="CartPole-v1", strategy="snes", **change)


UNREAD = [
    ({"mean_rule": "full-move"}, {"fitness_range": 7.0}, "--mean-rule relative, linear, sigmoid"),
    ({}, {"fitness_baseline": -9.0}, "--mean-rule absolute"),
    ({}, {"negative_ratio": 0.5}, "--mean-rule linear"),
    ({}, {"welford_samples": 3.0}, "--variance-rule welford-fixed"),
    (
        {"variance_rule": "one-fifth"},
        {"strict_welford": True},
        "--variance-rule welford-adaptive",
    ),
]
"""Rules, a number that they do not read, and those that do."""


@pytest.mark.parametrize(("rules", "number", "readers"), UNREAD)
@pytest.mark.parametrize("env", ["CartPole-v1", "Walker2d-v5"])
def test_numbers_that_the_rules_do_not_read_are_refused(
    rules: dict[str, str], number: dict[str, Any], readers: str, env: str
):
    ((name, value),) = number.items()
    flag = f"--{name.replace('_', '-')} {value}"
    field, _, first = readers.removeprefix("--").partition(" ")
    reading = {field.replace("-", "_"): first.split(",")[0]}
    AES(env=env, **{**rules, **reading}, **number)
    with pytest.raises(ValueError, match=f"^{flag} goes with {readers}: '.*' does not read it$"):
        AES(env=env, **rules, **number)
    with pytest.raises(ValueError, match=f"^{flag} goes with --strategy async-es: 'snes' has"):
        AES(env=env, strategy="snes", **number)


@pytest.mark.parametrize(
    ("rule", "number", "readers"),
    [
        ({"rl_probability": "fixed"}, {"control_slope": 3.0}, "--rl-probability controlled"),
        ({"actor_steps": "fixed"}, {"actor_steps_scale": 9.0}, "--actor-steps recent"),
        ({"actor_steps": "fixed"}, {"recent_episodes": 3}, "--actor-steps recent"),
        ({}, {"fixed_actor_steps": 7}, "--actor-steps fixed"),
    ],
)
@pytest.mark.parametrize("strategy", ["async-es", "snes"])
def test_numbers_that_refinements_do_not_read_are_refused(
    rule: dict[str, str], number: dict[str, Any], readers: str, strategy: str
):
    ((name, value),) = number.items()
    flag = f"--{name.replace('_', '-')} {value}"
    field, _, reading = readers.removeprefix("--").partition(" ")
    read = {field.replace("-", "_"): reading}
    AES(env="Hopper-v5", strategy=strategy, **read, **number)
    with pytest.raises(ValueError, match=f"^{flag} goes with {readers}: '.*' does not read it$"):
        AES(env="Hopper-v5", strategy=strategy, **rule, **number)


def test_a_range_beside_a_spread_is_refused_unless_it_is_the_presets():
    preset = find_method("aes").made("Walker2d-v5", "")
    assert (preset.fitness_range, preset.range_spread) == (800.0, 2.0)
    with pytest.raises(ValueError, match=r"--fitness-range 960.0 goes with --range-spread 0: r is"):
        replace(preset, fitness_range=960.0)
    replace(preset, fitness_range=960.0, range_spread=0.0)


def test_older_runs_may_have_numbers_that_nothing_reads():
    older = {"env": "Hopper-v5", "seed": 0, "rl_probability": "fixed", "control_slope": 3.0}
    fields = asdict(AES(env="Hopper-v5")) | older
    assert config_from({"method": "aes", "config": fields}).control_slope == AES.control_slope
    fields = asdict(PCEMRL(env="Hopper-v5", critic="parallel")) | {"critic_steps_scale": 2.0}
    assert config_from({"method": "p-cem-rl", "config": fields}).critic_steps_scale == 1.0


@pytest.mark.parametrize("method", ["aes", "one-plus-one", "acem-rl"])
def test_numbers_of_presets_go_with_any_rules(method: str):
    found = find_method(method)
    for env, variant in (("Hopper-v5", ""), ("Hopper-v5", "paper"), ("CartPole-v1", "")):
        config = found.made(env, variant)
        assert (config.fitness_range, config.fitness_baseline) != (500.0, 0.0)
        for rules in (("full-move", "one-fifth"), ("rank", "rank"), ("absolute", "rank")):
            names = dict(zip(("mean_rule", "variance_rule"), rules, strict=True))
            replace(config, range_spread=0.0, **names)
    plain = {"mean_rule": "relative", "variance_rule": "welford-adaptive", "strategy": "snes"}
    replace(find_method("aes").made("Hopper-v5", "paper"), **plain)


@pytest.mark.parametrize(("rules", "number"), [row[:2] for row in UNREAD])
def test_folders_of_older_runs_may_have_numbers_that_their_rules_do_not_read(
    rules: dict[str, str], number: dict[str, Any]
):
    for config in (AES(env="Hopper-v5", **rules), AES(env="Hopper-v5", strategy="snes")):
        document = {"method": "aes", "config": {**asdict(config), **number}}
        assert config_from(document) == config
        assert with_late_settings(document)["config"] == {**asdict(config)}
    new = find_method("aes").made("Hopper-v5")
    assert config_from({"method": "aes", "config": asdict(new)}) == new


@dataclass(frozen=True, kw_only=True)
class Narrow(AES):
    """A method whose own default is a range."""

    fitness_range: float = 50.0


def test_a_classs_own_default_goes_with_any_rules():
    for rules in ({"strategy": "snes"}, {"mean_rule": "full-move", "variance_rule": "one-fifth"}):
        assert Narrow(env="CartPole-v1", **rules).fitness_range == 50.0
        with pytest.raises(ValueError, match=r"--fitness-range 60\.0 goes with"):
            Narrow(env="CartPole-v1", fitness_range=60.0, **rules)


def test_refined_individuals_that_begin_at_no_sample_are_not_recentred():
    AES(env="CartPole-v1", refined_from="newest")
    with pytest.raises(ValueError, match="--recentred contradicts --refined-from newest"):
        AES(env="CartPole-v1", refined_from="newest", recentred=True)


@pytest.mark.parametrize("change", [{"staleness_discount": 0.9}, {"kl_bound": 1.0}])
def test_a_move_that_may_be_taken_back_is_not_shortened(change: dict[str, float]):
    rules = {"mean_rule": "confirmed-move", "variance_rule": "one-fifth"}
    flag = f"--{next(iter(change)).replace('_', '-')}"
    with pytest.raises(ValueError, match=f"{flag} shortens moves of the mean"):
        AES(env="CartPole-v1", **rules, **change)
    AES(env="CartPole-v1", **{**rules, "mean_rule": "full-move"}, **change)


def test_a_move_is_confirmed_by_evaluations_of_the_mean():
    AES(env="CartPole-v1", mean_rule="confirmed-move", variance_rule="one-fifth")
    with pytest.raises(ValueError, match="--mean-rule confirmed-move goes back by the mean's ret"):
        AES(env="CartPole-v1", mean_rule="confirmed-move", mean_evaluations=0)


def test_the_best_of_both_kinds_give_no_variance_of_one():
    AES(env="CartPole-v1", variance_from="es", variance_rule="one-fifth")
    with pytest.raises(ValueError, match="--variance-from es contradicts --variance-rule rank"):
        AES(env="CartPole-v1", variance_from="es", variance_rule="rank")


def test_what_a_strategy_plans_for_does_not_change_when_a_run_is_made_longer(tmp_path: Path):
    pytest.importorskip("nevergrad")
    config = AES(
        env="CartPole-v1",
        total_steps=300,
        warmup_steps=20,
        batch_size=8,
        p_desired=0.0,
        strategy="nevergrad:OnePlusOne",
        **OFF_POLICY,
    )
    run = train(config, workers="inline", out=tmp_path / "run")
    assert run.config.strategy_budget == 3
    longer = run.resume(workers="inline", total_steps=600)
    assert longer.config.strategy_budget == 3
    fields = dict(run.folder.document["config"])
    del fields["strategy_budget"]
    assert (
        config_from({"method": "aes", "config": fields}).strategy_budget == 0
    )  # a folder from before there was one
    assert find_method("aes").resolved(replace(config, strategy="snes")).strategy_budget == 0
    assert find_method("aes").resolved(replace(config, strategy_budget=7)).strategy_budget == 7
