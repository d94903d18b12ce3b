"""Every setting of a config reaches the learner that is made from it, and nothing else changes."""

from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drumline.algorithms.torch_optimizers import TorchAdam, TorchRMSProp
from drumline.api.run import train
from drumline.buffers.rollout import RolloutStorage
from drumline.functional.losses import LossRows, LossTerms, a2c_loss, reinforce_loss
from drumline.recipes import learners
from drumline.recipes.a2c import A2C
from drumline.recipes.actor_critic import parts_of
from drumline.recipes.hts import HTS
from drumline.recipes.impala import Impala
from drumline.recipes.methods import config_from
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
LEARNERS = {"a2c": "A2C", "ppo": "PPO"}
WATCHED = ("A2C", "PPO", "RolloutPreparation", "LearnedNetwork", "LearningState")

Handed = dict[str, dict[str, Any]]


def handed(config: Any) -> Handed:
    """Arguments of each part of the learner, by the names that the config has for them."""
    given, named = making_learner(config)
    made = named[LEARNERS[config.learner]]
    return {
        "settings": asdict(made["settings"]),
        "learner": {"learners": made["shards"].count, "learning_rate": made["learning_rate"](0)},
        "loss": loss_at(config, 0),
        "preparation": named["RolloutPreparation"],
        "network": {"precision": named["LearnedNetwork"]["precision"]},
        "optimizer": {"optimizer": OPTIMIZERS[type(given["LearningState"][1])]},
    }


def loss_at(config: Any, interval: int) -> dict[str, Any]:
    """The coefficients that the loss of an interval is given, by the config's names for them."""
    loss = making_learner(config)[1][LEARNERS[config.learner]]["loss"]
    named = dict(loss(interval).keywords)
    value_clip = named.pop("value_clip", None)
    assert value_clip in (None, named.get("clip"))
    return named | ({"clip_values": value_clip is not None} if "clip" in named else {})


def coefficients(config: Any, name: str) -> list[float]:
    """A coefficient of the losses of a run's intervals, in order."""
    return [loss_at(config, interval)[name] for interval in range(config.intervals)]


def making_learner(config: Any) -> tuple[dict[str, tuple[Any, ...]], Handed]:
    """Arguments that the parts of the learner are made with: in order, and by name."""
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
    return given, named


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


def test_a2c_without_a_baseline_has_reinforces_loss_and_no_critic():
    config = A2C(**SMALL, baseline="none", entropy_coefficient=0.25)
    given = making_learner(config)[1]["A2C"]
    assert given["settings"].baseline == "none"
    loss = given["loss"](0)
    assert (loss.func, loss.keywords) == (reinforce_loss, {"entropy_coefficient": 0.25})
    for other in (A2C(**SMALL), CONFIGS["a2c"], Impala(**SMALL, batch=2)):
        critic = making_learner(other)[1]["A2C"]
        assert critic["settings"].baseline == "critic"
        assert critic["loss"](0).func == a2c_loss


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


@pytest.mark.parametrize("name", RUNS)
def test_the_entropy_coefficient_goes_linearly_to_its_last_value(name: str):
    config = replace(RUNS[name], entropy_coefficient=0.5)
    config = replace(config, total_steps=8 * config.steps_per_update)
    falling = replace(config, final_entropy_coefficient=0.25)
    expected = [0.5 - 0.03125 * interval for interval in range(8)]
    assert coefficients(falling, "entropy_coefficient") == expected
    assert coefficients(config, "entropy_coefficient") == [0.5] * 8


def test_the_clip_range_falls_linearly_to_nothing_if_asked():
    config = replace(CONFIGS["ppo"], clip=0.25, clip_values=True)
    config = replace(config, total_steps=8 * config.steps_per_update)
    falling = [0.25 - 0.03125 * k for k in range(8)]
    assert coefficients(replace(config, anneal_clip=True), "clip") == falling
    assert coefficients(config, "clip") == [0.25] * 8


def test_an_entropy_coefficient_may_rise_from_nothing_and_stays_exact_where_it_stays():
    config = replace(CONFIGS["ppo"], final_entropy_coefficient=0.25)
    assert coefficients(config, "entropy_coefficient") == pytest.approx([0.0, 0.05, 0.1, 0.15, 0.2])
    config = replace(config, entropy_coefficient=0.1, final_entropy_coefficient=0.1)
    assert set(coefficients(config, "entropy_coefficient")) == {0.1}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])  # written out, and by autograd
@pytest.mark.parametrize("learner", CONFIGS)
def test_a_loss_of_ones_own_is_what_is_learned_from(learner: str, precision: Any):
    """As its own file would have it: a function of rows, and its coefficients in the config."""
    config = replace(CONFIGS[learner], precision=precision)
    intervals: list[int] = []

    def loss(rows: LossRows, divisor: int) -> LossTerms:
        terms = a2c_loss(rows, divisor, value_coefficient=0.0, entropy_coefficient=0.0)
        terms.metrics["beta"] = config.discount
        return terms._replace(d_log_probs=np.zeros_like(rows.log_probs))

    def loss_of(given: Any) -> Any:
        assert given == replace(config, renew_intervals=0, network="mlp")  # as it was resolved
        return lambda interval: intervals.append(interval) or loss

    parts = parts_of(config)
    made = learners.make_learner(parts, pause=lambda: None, loss_of=loss_of)
    shape = parts.shape
    arrays = {name: np.zeros(size, kind) for name, (size, kind) in shape.layout().items()}
    before = {name: array.copy() for name, array in made.published().items()}
    metrics = made.update(RolloutStorage(shape, arrays).read(0), before)
    assert metrics["beta"] == config.discount
    assert metrics["gradient_norm"] == 0.0
    assert np.array_equal(made.published()["parameters"], before["parameters"])
    assert intervals == [0]


def test_a_folder_from_before_there_were_schedules_has_none():
    fields = asdict(CONFIGS["ppo"])
    for name in ("final_entropy_coefficient", "anneal_clip"):
        del fields[name]
    assert config_from({"method": "hts", "config": fields}) == CONFIGS["ppo"]
