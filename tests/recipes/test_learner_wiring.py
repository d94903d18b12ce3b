"""Every setting of a config reaches the learner that is made from it, and nothing else changes."""

from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pytest

from drumline.algorithms.torch_optimizers import TorchAdam, TorchRMSProp
from drumline.commands.run import train
from drumline.recipes import learners
from drumline.recipes.a2c import A2C
from drumline.recipes.actor_critic import parts_of
from drumline.recipes.hts import HTS
from drumline.recipes.impala import Impala
from drumline.recipes.ppo import PPO

SMALL: dict[str, Any] = {
    "env": "CartPole-v1",
    "engine": "gymnasium",
    "total_steps": 120,
    "num_envs": 4,
    "alpha": 6,
    "hidden": (4,),
    "evaluate_every": 0,
    "evaluate_episodes": 1,
}
CONFIGS = {
    "a2c": HTS(**SMALL, learner="a2c", epochs=1, minibatches=1),
    "ppo": HTS(**SMALL, learner="ppo", epochs=1, minibatches=1),
}
OPTIMIZERS = {TorchAdam: "adam", TorchRMSProp: "rmsprop"}
WATCHED = ("A2C", "PPO", "RolloutPreparation", "LearnedNetwork", "LearningState")

Handed = dict[str, dict[str, Any]]


def handed(config: Any) -> Handed:
    """What each part of the learner is given, by the names that the config has for it."""
    given: dict[str, tuple[Any, ...]] = {}
    named: dict[str, dict[str, Any]] = {}

    def watch(patch: pytest.MonkeyPatch, name: str) -> None:
        make = getattr(learners, name)

        def making(*some: Any, **others: Any) -> Any:
            given[name], named[name] = some, others
            return make(*some, **others)

        patch.setattr(learners, name, making)

    with pytest.MonkeyPatch.context() as patch:
        for name in WATCHED:
            watch(patch, name)
        parts = replace(parts_of(config), config=config, renewed=True)
        learners.make_learner(parts, pause=lambda: None)
    made = named["A2C" if config.learner == "a2c" else "PPO"]
    rates = {"learning_rate": made["learning_rate"](0), "learners": made["shards"]}
    return {
        "settings": asdict(made["settings"]),
        "learner": rates | ({"clip": made["clip"](0)} if "clip" in made else {}),
        "preparation": named["RolloutPreparation"],
        "network": {"precision": named["LearnedNetwork"]["precision"]},
        "optimizer": {"optimizer": OPTIMIZERS[type(given["LearningState"][1])]},
    }


def changed(before: Handed, name: str, value: Any) -> Handed:
    return {
        part: {own: value if own == name else old for own, old in values.items()}
        for part, values in before.items()
    }


SHARED = {
    "learning_rate": 0.125,
    "optimizer": "rmsprop",
    "precision": "bf16",
    "learners": 2,
    "discount": 0.5,
    "gae_lambda": 0.75,
    "value_coefficient": 0.25,
    "entropy_coefficient": 0.0625,
    "max_gradient_norm": 3.0,
    "normalize_observations": True,
    "scale_rewards": True,
    "clip_rewards": True,
    "renew_intervals": 3,
}
OWN = {
    "a2c": [("unroll", 3), *(("correction", c) for c in ("none", "truncated-is", "vtrace"))],
    "ppo": [
        ("seed", 5),
        ("epochs", 3),
        ("minibatches", 2),
        ("clip", 0.05),
        ("clip_values", True),
        ("normalize_advantages", False),
        ("target_kl", 0.02),
        *(("correction", c) for c in ("ppo-ratio", "delayed", "vtrace", "none")),
    ],
}


@pytest.mark.parametrize(
    ("learner", "name", "value"),
    [(learner, *case) for learner in OWN for case in (*SHARED.items(), *OWN[learner])],
)
def test_a_field_of_the_config_reaches_its_place_and_no_other(learner: str, name: str, value: Any):
    config = CONFIGS[learner]
    before, after = handed(config), handed(replace(config, **{name: value}))
    assert after == changed(before, name, value)
    assert after != before


@pytest.mark.parametrize("learner", CONFIGS)
def test_what_nobody_changed_is_handed_over_as_it_is(learner: str):
    config = CONFIGS[learner]
    mine = {field.name: getattr(config, field.name) for field in fields(config)}
    mine["correction"] = config.correction_used
    parts = handed(config).values()
    checked = {name: value for part in parts for name, value in part.items() if name in mine}
    assert checked == {name: mine[name] for name in checked}
    assert checked.keys() >= SHARED.keys() | dict(OWN[learner]).keys()


@pytest.mark.parametrize(
    ("config", "correction"),
    [
        (A2C(**SMALL), "none"),
        (PPO(**SMALL, minibatches=1), "ppo-ratio"),
        (Impala(**SMALL, batch=2), "vtrace"),
    ],
    ids=["a2c", "ppo", "impala"],
)
def test_a_method_with_one_correction_has_its_own(config: Any, correction: str):
    assert handed(config)["settings"]["correction"] == correction


RUNS: dict[str, Any] = {
    **CONFIGS,
    "impala": Impala(**SMALL, batch=2),
    "lock-step": A2C(**SMALL),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_learning_rate_falls_linearly_to_nothing(tmp_path: Path, name: str):
    config = replace(RUNS[name], learning_rate=0.125)
    metrics = train(config, workers="inline", out=tmp_path / "run").metrics
    count = config.total_steps // config.steps_per_update
    assert count >= 5
    falling = [0.125 * (1 - k / count) for k in range(count)]
    assert [row["learning_rate"] for row in metrics] == pytest.approx(falling)


@pytest.mark.parametrize("name", RUNS)
def test_a_rate_that_is_not_annealed_stays(tmp_path: Path, name: str):
    config = replace(RUNS[name], anneal=False, learning_rate=0.125)
    metrics = train(config, workers="inline", out=tmp_path / "run").metrics
    assert [row["learning_rate"] for row in metrics] == [0.125] * config.intervals
