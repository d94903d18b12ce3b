"""PPO's minibatches one by one against autograd over plain loops."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from algorithms.learner_examples import (
    A2C_SETTINGS,
    CATEGORICAL,
    ENVIRONMENTS,
    GAUSSIAN,
    PPO_SETTINGS,
    SIZE,
    STEPS,
    VALUE,
    Downhill,
    Made,
    PPORun,
    everything,
    explicit_ppo,
    rollout_of,
    same_state,
)
from campaigns import cases
from torch import Tensor

from drumline import seeding
from drumline.algorithms.learning_state import UnfiniteLoss
from drumline.algorithms.microbatches import Microbatches
from drumline.algorithms.ppo import PPOSettings
from drumline.policies.actions import ActionHead
from drumline.policies.actor_critic import build_network
from drumline.policies.vector import FlatParameters
from drumline.types import Metrics, Rollout


@pytest.fixture(params=["autograd", "written-out"], autouse=True)
def both_gradients(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is true of the one gradient is true of the other."""
    monkeypatch.setattr(Made, "written_out", request.param == "written-out")


def updated(made: Made, shards: int = 1, interval: int = 3) -> tuple[PPORun, Metrics]:
    behavior = made.behavior(1)
    rollout = rollout_of(made.spec, behavior, interval)
    expected = explicit_ppo(made, rollout, behavior["parameters"], shards)
    return expected, made.learner.update(rollout, behavior)


def learned(made: Made) -> Metrics:
    behavior = made.behavior(1)
    return made.learner.update(rollout_of(made.spec, behavior), behavior)


def agree(made: Made, expected: PPORun) -> None:
    assert isinstance(made.optimizer, Downhill)
    assert len(made.optimizer.gradients) == len(expected.gradients)
    for found, explicit in zip(made.optimizer.gradients, expected.gradients, strict=True):
        assert found.numpy() == pytest.approx(explicit.numpy(), abs=2e-5)
    assert made.parameters == pytest.approx(expected.parameters, abs=1e-5)


CORRECTIONS = ("decoupled", "truncated-is", "ppo-ratio", "delayed", "vtrace", "none")
BATCHES = [*product(CORRECTIONS, (1, 2), (CATEGORICAL, GAUSSIAN))]


@pytest.mark.parametrize(
    ("correction", "shards", "head"),
    cases(BATCHES, quick=[BATCHES[k] for k in range(24) if (k + k // 4) % 4 in (0, 3)]),
    ids=lambda value: getattr(value, "kind", str(value)),
)
def test_every_minibatch_is_what_autograd_gives(correction: Any, shards: int, head: ActionHead):
    settings = replace(PPO_SETTINGS, correction=correction)
    made = Made(settings, head, options={"shards": shards})
    expected, metrics = updated(made, shards)
    agree(made, expected)
    assert metrics["gradient_steps"] == PPO_SETTINGS.epochs * PPO_SETTINGS.minibatches
    assert metrics["approximate_kl_nats"] == pytest.approx(np.mean(expected.kls), rel=1e-3)


@pytest.mark.parametrize("clip_values", [False, True])
@pytest.mark.parametrize("normalize_advantages", [False, True])
def test_values_are_clipped_and_advantages_normalised_only_if_asked(
    clip_values: bool, normalize_advantages: bool
):
    settings = replace(PPO_SETTINGS, normalize_advantages=normalize_advantages)
    made = Made(settings, clip_values=clip_values)
    agree(made, updated(made)[0])


def test_a_minibatch_of_one_row_keeps_its_advantage():
    made = Made(replace(PPO_SETTINGS, minibatches=STEPS * ENVIRONMENTS, epochs=1))
    assert isinstance(made.settings, PPOSettings)
    plain = Made(replace(made.settings, normalize_advantages=False))
    assert learned(made) == learned(plain)
    assert np.array_equal(made.parameters, plain.parameters)


def test_corrections_and_shards_make_a_difference():
    found = []
    for correction in CORRECTIONS:
        for shards in (1, 2):
            settings: PPOSettings = replace(PPO_SETTINGS, correction=correction)
            made = Made(settings, options={"shards": shards})
            learned(made)
            found.append(made.parameters)
    for place, one in enumerate(found):
        for other in found[place + 1 :]:
            assert np.abs(one - other).max() > 1e-4


def test_objectives_around_the_newest_policy_are_ppos_own_where_the_data_are_on_policy():
    found = []
    for correction in ("decoupled", "truncated-is", "ppo-ratio"):
        made = Made(replace(PPO_SETTINGS, correction=correction))
        behavior = made.learner.published()
        made.learner.update(rollout_of(made.spec, behavior), behavior)
        assert isinstance(made.optimizer, Downhill)
        found.append([gradient.numpy() for gradient in made.optimizer.gradients])
    for decoupled, truncated, plain in zip(*found, strict=True):
        assert decoupled == pytest.approx(plain, abs=2e-5)
        assert truncated == pytest.approx(plain, abs=2e-5)
        assert np.abs(plain).max() > 1e-3


BANDIT = np.repeat([0, 1, 2], [14, 7, 7])
"""Actions of a bandit whose μ is ½, ¼, ¼: an interval has each action as often as μ has."""
PAID = np.array([1.0, -0.5, 3.0])


def bandit(correction: Any) -> tuple[Made, Rollout]:
    """A learner whose π_k has moved far from the μ that played the bandit."""
    settings = replace(
        PPO_SETTINGS, correction=correction, epochs=1, minibatches=1, normalize_advantages=True
    )
    made = Made(settings, clip_values=False, entropy=lambda interval: 0.0)
    blank = rollout_of(made.spec, made.behavior(1))
    grid = blank.rewards.shape
    mine = blank._replace(
        observations=np.ones_like(blank.observations),
        actions=BANDIT.reshape(grid).astype(blank.actions.dtype),
        rewards=PAID[BANDIT].reshape(grid).astype(np.float32),
        terminated=np.ones(grid, bool),
        truncated=np.zeros(grid, bool),
        log_probs=np.log(np.array([0.5, 0.25, 0.25])[BANDIT]).reshape(grid).astype(np.float32),
        final_steps=blank.final_steps[:0],
        final_environments=blank.final_environments[:0],
        final_observations=blank.final_observations[:0],
    )
    return made, mine


def exact_bandit_gradient(made: Made) -> tuple[Tensor, np.ndarray]:
    """Return ∇ of −Σ_a π_k(a) Â(a) log π(a) + the value loss, and the weights π_k/μ."""
    network = FlatParameters(build_network(made.spec))
    network.load(made.parameters)
    outputs, values = network.module(torch.ones(1, SIZE))
    log_probs = torch.log_softmax(outputs[0], dim=0)
    now = log_probs.detach().exp().numpy().astype(np.float64)
    value = values.item()
    rows = PAID[BANDIT] - value
    standardised = torch.tensor((PAID - value - rows.mean()) / rows.std(), dtype=torch.float32)
    policy = -(torch.tensor(now, dtype=torch.float32) * standardised * log_probs).sum()
    errors = torch.tensor(rows, dtype=torch.float32) + value - values[0]
    loss = policy + VALUE * 0.5 * errors.square().mean()
    parts = torch.autograd.grad(loss, list(network.module.parameters()))
    return torch.cat([part.reshape(-1) for part in parts]), now / np.array([0.5, 0.25, 0.25])


def test_the_decoupled_objective_is_exact_on_a_bandit_after_a_large_move():
    apart = {}
    for correction in ("decoupled", "truncated-is"):
        made, rollout = bandit(correction)
        exact, weights = exact_bandit_gradient(made)
        assert weights.max() > 1.2, "a small move would prove little"
        made.learner.update(rollout, made.behavior(1))
        assert isinstance(made.optimizer, Downhill)
        apart[correction] = float((made.optimizer.gradients[0] - exact).norm() / exact.norm())
    assert apart["decoupled"] < 1e-5
    assert apart["truncated-is"] > 0.02


@pytest.mark.parametrize(
    ("interval", "head"),
    cases(
        product((0, 4, 7), (CATEGORICAL, GAUSSIAN)),
        quick=[(0, CATEGORICAL), (4, GAUSSIAN), (7, CATEGORICAL)],
    ),
    ids=lambda value: getattr(value, "kind", str(value)),
)
def test_the_entropy_coefficient_is_a_function_of_the_interval(interval: int, head: ActionHead):
    made = Made(PPO_SETTINGS, head, entropy=lambda interval: 0.5 - 0.0625 * interval)
    agree(made, updated(made, interval=interval)[0])
    constant = Made(PPO_SETTINGS, head)
    updated(constant, interval=interval)
    assert np.abs(made.parameters - constant.parameters).max() > 1e-3


@pytest.mark.parametrize(
    ("interval", "correction"),
    cases(
        product((0, 4, 7), CORRECTIONS),
        quick=[
            *((0, "decoupled"), (4, "truncated-is"), (4, "ppo-ratio")),
            *((7, "delayed"), (4, "vtrace"), (0, "none")),
        ],
    ),
)
def test_the_clip_range_is_a_function_of_the_interval(interval: int, correction: Any):
    settings = replace(PPO_SETTINGS, correction=correction)
    made = Made(settings, clip=lambda interval: 0.04 - 0.005 * interval)
    agree(made, updated(made, interval=interval)[0])
    constant = Made(settings)
    updated(constant, interval=interval)
    assert np.abs(made.parameters - constant.parameters).max() > 1e-3


def test_slices_of_a_minibatch_add_up_to_it():
    made = Made(PPO_SETTINGS, microbatches=Microbatches(3), options={"shards": 2})
    agree(made, updated(made, 2)[0])


def test_every_minibatchs_gradient_is_clipped():
    free, bound = Made(PPO_SETTINGS), Made(replace(PPO_SETTINGS, max_gradient_norm=0.05))
    learned(free)
    expected, metrics = updated(bound)
    agree(bound, expected)
    assert isinstance(free.optimizer, Downhill)
    assert isinstance(bound.optimizer, Downhill)
    assert all(float(g.norm()) > 0.06 for g in free.optimizer.gradients)
    assert len(bound.optimizer.gradients) == 6
    assert all(float(g.norm()) <= 0.05 + 1e-6 for g in bound.optimizer.gradients)
    assert metrics["gradient_norm"] > 0.06


def test_epochs_end_before_the_step_of_the_first_minibatch_that_is_too_far_away():
    kls = updated(Made(replace(PPO_SETTINGS, epochs=6)))[0].kls
    order = sorted(kls)
    target = (order[-1] + order[-2]) / 2 / 1.5
    stop = next(place for place, kl in enumerate(kls) if kl > 1.5 * target)
    assert stop > 0, "the first minibatch would prove little"
    made = Made(replace(PPO_SETTINGS, epochs=6, target_kl=target))
    assert learned(made)["gradient_steps"] == stop
    never = Made(replace(PPO_SETTINGS, epochs=6, target_kl=10 * target))
    assert learned(never)["gradient_steps"] == 12


def test_nothing_is_learned_from_observations_that_are_not_to_scale():
    for settings in (PPO_SETTINGS, A2C_SETTINGS):
        learner = everything(settings)
        first = learner.learner.published()
        rollout = rollout_of(learner.spec, first, 0)
        metrics = learner.learner.update(rollout, first)
        second = learner.learner.published()
        assert metrics["gradient_steps"] == 0.0
        assert np.isfinite([*metrics.values()]).all()
        assert np.array_equal(second["parameters"], first["parameters"])
        assert not np.array_equal(second["observation_mean"], first["observation_mean"])
        later = learner.learner.update(rollout_of(learner.spec, second, 1), second)
        assert later["gradient_steps"] > 0.0
        assert later.keys() == metrics.keys()


def test_shuffles_depend_on_interval_epoch_and_shard_alone(monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[Any, ...]] = []
    generator = seeding.generator

    def noted(*name: Any) -> Any:
        if name[1] == "shuffle":
            asked.append(name)
        return generator(*name)

    monkeypatch.setattr(seeding, "generator", noted)
    learned = Made(PPO_SETTINGS, options={"shards": 2})
    for interval in (7, 8):
        behavior = learned.behavior(1)
        learned.learner.update(rollout_of(learned.spec, behavior, interval), behavior)
    names = [(11, "shuffle", k, epoch, s) for k in (7, 8) for epoch in range(3) for s in range(2)]
    assert asked == names


def test_each_row_is_seen_once_an_epoch_unless_it_is_left_over():
    made = Made(replace(PPO_SETTINGS, minibatches=3), options={"shards": 2})
    learner: Any = made.learner
    for epoch in range(3):
        first, second = (rows.tolist() for rows in learner._order(5, epoch, [2 * STEPS] * 2))
        assert sorted(first) == sorted(second) == list(range(2 * STEPS))
        assert first != second
    agree(made, updated(made, 2)[0])


def test_the_delayed_displacement_does_not_depend_on_the_live_parameters():
    moves = []
    for live in (1, 2, 5):
        made = Made(replace(PPO_SETTINGS, correction="delayed"), live=live)
        start = made.parameters
        learned(made)
        moves.append(made.parameters - start)
    assert moves[0] == pytest.approx(moves[1], abs=1e-6)
    assert moves[0] == pytest.approx(moves[2], abs=1e-6)


def test_a_loss_that_is_no_number_is_found_in_the_minibatch_that_it_falls_into():
    made = Made(PPO_SETTINGS)
    behavior = made.behavior(1)
    rollout = rollout_of(made.spec, behavior)
    order = made.learner._order(3, 0, [STEPS * ENVIRONMENTS])[0].tolist()  # type: ignore[union-attr]
    row = order[-1]
    rollout.log_probs[row // ENVIRONMENTS, row % ENVIRONMENTS] = np.nan
    before = made.learner.state()
    with pytest.raises(UnfiniteLoss, match="interval 3, epoch 0, minibatch 1 is not finite"):
        made.learner.update(rollout, behavior)
    assert isinstance(made.optimizer, Downhill)
    assert len(made.optimizer.gradients) == 1
    assert same_state(made.learner.state(), before)


@pytest.mark.parametrize("correction", ["ppo-ratio", "delayed"])
def test_an_update_that_is_interrupted_changes_nothing(correction: Any):
    pauses: list[int] = []

    def interrupt() -> None:
        pauses.append(0)
        if len(pauses) == 4:
            raise KeyboardInterrupt

    made = Made(replace(PPO_SETTINGS, correction=correction), options={"pause": interrupt})
    before = made.learner.state()
    with pytest.raises(KeyboardInterrupt):
        learned(made)
    assert same_state(made.learner.state(), before)
