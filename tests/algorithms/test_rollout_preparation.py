"""Preparation of an interval before any gradient, against plain loops."""

from typing import Any

import numpy as np
import pytest
from algorithms.learner_examples import (
    DISCOUNT,
    ENVIRONMENTS,
    SIZE,
    STEPS,
    parameters_of,
    rollout_of,
    spec_of,
)

from drumline.algorithms.rollout_preparation import Prepared, RolloutPreparation
from drumline.functional.shards import Shards
from drumline.types import Rollout

SPEC = spec_of()
WHOLE = Shards.alone()


def made(**options: Any) -> RolloutPreparation:
    settings = {"normalize_observations": False, "scale_rewards": False, **options}
    return RolloutPreparation(SIZE, ENVIRONMENTS, discount=DISCOUNT, **settings)


def prepared(
    preparation: RolloutPreparation, rollout: Rollout, behavior: dict[str, np.ndarray]
) -> Prepared:
    (data,) = preparation.prepare(rollout, behavior, WHOLE)
    return data


def folded(preparation: RolloutPreparation, rollout: Rollout) -> None:
    preparation.fold(preparation.seen(rollout, WHOLE))


def interval(number: int = 0) -> Rollout:
    return rollout_of(SPEC, {"parameters": parameters_of(SPEC, 1)}, number)


def test_time_limits_are_bootstrapped_and_terminations_are_not():
    rollout = interval()
    data = prepared(made(), rollout, {})
    for t in range(STEPS):
        for b in range(ENVIRONMENTS):
            ended = rollout.terminated[t, b] or rollout.truncated[t, b]
            assert data.discounts[t, b] == (0 if rollout.terminated[t, b] else np.float32(DISCOUNT))
            assert data.ended[t, b] == ended
    assert data.final_steps.tolist() == rollout.final_steps.tolist()
    assert data.final_environments.tolist() == rollout.final_environments.tolist()


def test_without_settings_numbers_are_as_they_were():
    rollout = interval()
    data = prepared(made(), rollout, {})
    assert data.observations.numpy().tobytes() == rollout.observations.tobytes()
    assert data.final_observations.numpy().tobytes() == rollout.final_observations.tobytes()
    for name in ("actions", "rewards", "log_probs", "values"):
        assert getattr(data, name).numpy().tobytes() == getattr(rollout, name).tobytes()
    assert made().published() == {}


def test_observations_are_normalised_by_the_behaviours_moments_not_by_the_newest():
    preparation = made(normalize_observations=True)
    prepared(preparation, interval(0), preparation.published())
    folded(preparation, interval(0))
    behavior = {
        "observation_mean": np.array([0.5, -1.0, 0.0]),
        "observation_inverse_std": np.array([2.0, 0.5, 400.0]),
    }
    rollout = interval(1)
    data = prepared(preparation, rollout, behavior)
    for found, raw in (
        (data.observations, rollout.observations.reshape(-1, SIZE)),
        (data.final_observations, rollout.final_observations),
    ):
        expected = (raw.astype(np.float64) - behavior["observation_mean"]) * behavior[
            "observation_inverse_std"
        ]
        assert np.abs(expected).max() > 10
        bounded = np.clip(expected, -10, 10).astype(np.float32)
        assert found.numpy().tobytes() == bounded.tobytes()


def test_moments_are_those_of_every_folded_row_but_the_carried_ones():
    preparation = made(normalize_observations=True)
    rows = []
    for number in range(3):
        prepared(preparation, interval(number), preparation.published())
        folded(preparation, interval(number))
        rows.append(interval(number).observations[:-1].reshape(-1, SIZE).astype(np.float64))
    seen = np.concatenate(rows)
    count = len(seen) + 1e-2
    mean = seen.sum(axis=0) / count
    variance = (np.square(seen - mean).sum(axis=0) + 1e-2 * (1 + mean**2)) / count
    published = preparation.published()
    assert published["observation_mean"] == pytest.approx(mean, abs=1e-12)
    assert published["observation_inverse_std"] == pytest.approx(variance**-0.5, rel=1e-12)


def test_what_is_prepared_counts_only_once_it_is_folded():
    preparation = made(normalize_observations=True, scale_rewards=True)
    behavior = preparation.published()
    before = preparation.state()
    first = prepared(preparation, interval(0), behavior)
    again = prepared(preparation, interval(0), behavior)
    assert first.rewards.numpy().tobytes() == again.rewards.numpy().tobytes()
    after = preparation.state()
    assert after.counters == before.counters
    assert all(after.tensors[k].tobytes() == v.tobytes() for k, v in before.tensors.items())


def test_an_intervals_rewards_are_scaled_by_moments_that_hold_it_already():
    preparation = made(scale_rewards=True)
    returns = [0.0] * ENVIRONMENTS
    seen: list[float] = []
    for number in range(3):
        rollout = interval(number)
        data = prepared(preparation, rollout, {})
        folded(preparation, rollout)
        for b in range(ENVIRONMENTS):
            for t in range(STEPS):
                returns[b] = DISCOUNT * returns[b] + float(rollout.rewards[t, b])
                seen.append(returns[b])
                if rollout.terminated[t, b] or rollout.truncated[t, b]:
                    returns[b] = 0.0
        count = len(seen) + 1e-4
        mean = sum(seen) / count
        squares = sum((x - mean) ** 2 for x in seen) + 1e-4 * (1 + mean**2)
        expected = rollout.rewards / np.sqrt(squares / count + 1e-8)
        assert data.rewards.numpy() == pytest.approx(expected, rel=1e-5)


def test_scaled_rewards_are_bounded_and_clipped_ones_are_signs():
    rollout = interval()
    rollout.rewards[:] = 1e-6
    rollout.rewards[3, 2], rollout.rewards[4, 1] = 1e6, 0.0
    scaled = prepared(made(scale_rewards=True), rollout, {}).rewards
    assert float(scaled.abs().max()) <= 10.0
    signs = prepared(made(clip_rewards=True), rollout, {}).rewards.numpy()
    assert signs.tolist() == np.sign(rollout.rewards).tolist()


def test_images_stay_bytes():
    rollout = interval()
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (STEPS + 1, ENVIRONMENTS, 2, 3, 3)).astype(np.uint8)
    final = images[0, : len(rollout.final_steps)]
    data = prepared(made(), rollout._replace(observations=images, final_observations=final), {})
    assert data.observations.shape == ((STEPS + 1) * ENVIRONMENTS, 2, 3, 3)
    assert data.observations.numpy().tobytes() == images.tobytes()
    assert np.shares_memory(data.observations.numpy(), images)


def test_a_renewal_starts_every_discounted_return_anew():
    renewed, plain = made(scale_rewards=True, renew_intervals=1), made(scale_rewards=True)
    for preparation in (renewed, plain):
        for number in range(2):
            prepared(preparation, interval(number), {})
            folded(preparation, interval(number))
    alone = made(scale_rewards=True)
    prepared(alone, interval(1)._replace(interval=0), {})
    folded(alone, interval(1))
    cut = renewed.state().tensors["reward_returns"]
    assert cut.tobytes() == alone.state().tensors["reward_returns"].tobytes()
    assert cut.tobytes() != plain.state().tensors["reward_returns"].tobytes()


def test_intervals_acted_with_moments_of_nothing_are_raw():
    preparation = made(normalize_observations=True)
    empty = preparation.published()
    assert preparation.raw(interval(0), empty)
    prepared(preparation, interval(0), empty)
    folded(preparation, interval(0))
    assert preparation.raw(interval(1), empty), "with a lag version 1 has no moments either"
    assert not preparation.raw(interval(1), preparation.published())
    assert not preparation.raw(interval(2), empty), "these are moments that came out like that"
    assert not made().raw(interval(0), {})
