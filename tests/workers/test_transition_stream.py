"""A stream of transitions against the environment that it steps."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from late_fault_environment import OBSERVATIONS, REWARDS

from drumline import seeding
from drumline.buffers.replay import GOES_ON, TERMINATED, TRUNCATED
from drumline.envs.environment import EnvironmentProblem, EnvironmentSpec
from drumline.errors import WorkerError
from drumline.policies.heads import Head
from drumline.policies.mlp import uniform_vector
from drumline.policies.spec import PolicySpec
from drumline.protocols import Unwatched
from drumline.types import State
from drumline.workers.transition_stream import Step, TransitionStream, UnfiniteTransition

TWO = Head("squashed", (-1.0, -1.0), (1.0, 1.0), (2,))
ONE = Head("squashed", (-1.0,), (1.0,), (1,))
THREE = Head("discrete", choices=3)


def make(
    name: str = "lane_environments:counting",
    head: Head = TWO,
    size: int = 3,
    exploration: float = 0.3,
    options: dict[str, Any] | None = None,
) -> TransitionStream:
    if options is None:
        options = {"continuous": head.kind != "discrete"}
    policy = PolicySpec(size, head, (8,), normalize=False, activation="relu")
    stream = TransitionStream(EnvironmentSpec(name, options=options), policy, 5, exploration)
    sizes = (size, 8, head.output_size)
    stream.follow(uniform_vector(sizes, np.random.default_rng(0)))
    return stream


def run(stream: TransitionStream, block: int, steps: int, random: bool = False) -> list[Step]:
    stream.begin(block, steps)
    return [stream.step(random) for _ in range(steps)]


def same(one: list[Step], other: list[Step]) -> bool:
    return all(
        np.array_equal(a, b)
        for left, right in zip(one, other, strict=True)
        for a, b in zip(left, right, strict=True)
    )


class Noted(Unwatched):
    """Keeps whether the driver is noted within an environment, before, in and after its calls."""

    def __init__(self):
        super().__init__()
        self.inside = False

    def enter(self, where: str) -> None:
        self.again()

    def again(self) -> None:
        self.inside = True

    def leave(self) -> None:
        self.inside = False


def test_only_calls_of_the_environment_are_noted():
    noted, seen = Noted(), list[bool]()
    policy = PolicySpec(3, TWO, (8,), normalize=False, activation="relu")
    spec = EnvironmentSpec("lane_environments:counting", options={"continuous": True})
    stream = TransitionStream(spec, policy, 5, 0.3, noted)
    made: Any = stream._made.environment.checked  # type: ignore[union-attr]
    for name in ("reset", "step"):
        call = getattr(made, name)

        def watched(*given: Any, call: Any = call, **named: Any) -> Any:
            seen.append(noted.inside)
            return call(*given, **named)

        setattr(made, name, watched)
    stream.begin(0, 30)
    stream.follow(uniform_vector((3, 8, 2), np.random.default_rng(0)))
    for _ in range(30):
        stream.step(random=False)
        assert not noted.inside
    assert len(seen) >= 30
    assert all(seen)


def test_each_step_begins_where_the_one_before_led_to():
    steps = run(make(), 0, 200)
    kinds = {step.kind for step in steps}
    assert kinds == {GOES_ON, TERMINATED, TRUNCATED}
    for before, after in pairwise(steps):
        if before.kind == GOES_ON:
            assert np.array_equal(before.next_observation, after.observation)
        else:
            assert after.observation[0] == 0.0
            assert before.next_observation[0] > 0.0


def test_episodes_are_reported_once_with_their_returns_and_lengths():
    stream = make()
    assert np.isnan(stream.recent_return)  # 0 would be a return
    steps = run(stream, 0, 200)
    rows = stream.take(7)
    ends = [t for t, step in enumerate(steps) if step.kind != GOES_ON]
    assert [row.member for row in rows] == list(range(len(ends)))
    assert {row.update for row in rows} == {7}
    assert sum(row.length for row in rows) == ends[-1] + 1
    expected = sum(step.reward for step in steps[: ends[-1] + 1])
    np.testing.assert_allclose(sum(row.episode_return for row in rows), expected)
    assert stream.take(8) == []
    np.testing.assert_allclose(
        stream.recent_return, np.mean([row.episode_return for row in rows][-100:])
    )


@pytest.mark.parametrize("head", [TWO, THREE])
@pytest.mark.parametrize("steps", [1, 7, 40])
def test_a_restored_stream_goes_on_with_the_same_steps(head: Head, steps: int):
    stream, restored = make(head=head), make(head=head)
    run(stream, 0, steps)
    run(restored, 3, 11)  # whatever it did before
    restored.load(stream.state())
    assert same(run(stream, 1, 30), run(restored, 1, 30))
    assert stream.recent_return == restored.recent_return


@pytest.mark.parametrize("head", [TWO, THREE])
def test_blocks_draw_their_own_exploration(head: Head):
    one, other = make(head=head), make(head=head)
    assert same(run(one, 0, 20, True), run(other, 0, 20, True))
    actions = [
        [step.action.tolist() for step in run(s, b, 20, True)] for s, b in ((one, 1), (other, 2))
    ]
    assert actions[0] != actions[1]


def test_random_actions_fill_the_bounds():
    actions = np.array([step.action for step in run(make(), 0, 500, True)])
    assert actions.min() < -0.95
    assert actions.max() > 0.95
    assert np.abs(actions).max() <= 1.0
    chosen = np.array([step.action[0] for step in run(make(head=THREE), 0, 500, True)])
    assert np.bincount(chosen.astype(int), minlength=3).min() > 100


def test_exploration_noise_has_its_std_and_none_follows_the_policy():
    quiet, noisy = make(exploration=0.0), make(exploration=0.1)
    steps = run(noisy, 0, 400)
    policy = quiet._policy  # pyright: ignore[reportPrivateUsage]
    expected = np.array([np.asarray(policy.act(step.observation)) for step in steps])
    noise = np.array([step.action for step in steps]) - expected
    inside = np.abs(expected) < 0.6
    assert abs(noise[inside].std() - 0.1) < 0.02
    assert same(run(quiet, 0, 5), [s._replace() for s in run(make(exploration=0.0), 9, 5)])


def test_a_squashed_gaussian_explores_with_the_std_that_its_network_puts_out():
    head = Head("squashed-gaussian", TWO.low, TWO.high, TWO.shape)
    steps = run(make(head=head, exploration=1.0), 4, 400)
    policy = make(head=head)._policy  # pyright: ignore[reportPrivateUsage]
    rng = seeding.generator(5, "exploration", 4)
    rng.random((400, 3), dtype=np.float32)
    noise = rng.standard_normal((400, 2), dtype=np.float32)
    for step, drawn in zip(steps, noise, strict=True):
        mean, log_std = policy.output(step.observation).reshape(2, 2)
        expected = np.tanh(mean + np.exp(log_std) * drawn)
        np.testing.assert_allclose(step.action, expected, rtol=1e-5, atol=1e-6)


def test_a_discrete_policy_explores_with_probability_epsilon():
    greedy = [step.action[0] for step in run(make(head=THREE, exploration=0.0), 0, 300)]
    varied = [step.action[0] for step in run(make(head=THREE, exploration=1.0), 0, 300)]
    assert len(set(varied)) == 3
    assert np.bincount(np.array(varied, int)).min() > 60
    assert greedy != varied


def test_actions_are_stored_as_the_environment_got_them():
    stream = make("impure_environment:Counting", ONE, 2, options={})
    for step in run(stream, 0, 20):
        np.testing.assert_allclose(step.reward, step.action[0] * step.observation[1], rtol=1e-6)


def test_the_environments_own_time_limit_truncates():
    stream = make("Pendulum-v1", Head("squashed", (-2.0,), (2.0,), (1,)), options={})
    kinds = [step.kind for step in run(stream, 0, 400)]
    assert [t for t, kind in enumerate(kinds) if kind == TRUNCATED] == [199, 399]


@pytest.mark.parametrize("name", ["NaNObservation", "NaNReward", "InfiniteReward"])
def test_what_is_not_finite_is_named_with_its_place(name: str):
    stream = make(f"impure_environment:{name}", ONE, 2, options={})
    with pytest.raises(UnfiniteTransition, match=r"not finite in .*, training episode 0, step 2"):
        run(stream, 0, 5)


@pytest.mark.parametrize(
    ("name", "message", "step"),
    [
        ("Collapsing", "the cart fell off the table", 3),
        ("Leaving", "SystemExit: 0", 3),
        ("LostAtReset", "no start in sight", 0),
        ("Mute", r"Silent \(its __str__ raised ZeroDivisionError\)", 3),
    ],
)
def test_what_the_environment_raises_comes_with_its_place(name: str, message: str, step: int):
    stream = make(f"impure_environment:{name}", ONE, 2, options={})
    with pytest.raises(WorkerError, match=message) as caught:
        run(stream, 0, 5)
    assert f"training episode 0, step {step}" in caught.value.task


@pytest.mark.parametrize("fault", [*OBSERVATIONS, *REWARDS])
def test_a_fault_in_a_later_episode_is_named_with_its_place(fault: str):
    stream = make("late_fault_environment:Late", ONE, options={"fault": fault})
    _, said = {**OBSERVATIONS, **REWARDS}[fault]
    with pytest.raises(EnvironmentProblem, match=f"^the (observation|reward) is {said}") as told:
        run(stream, 0, 8)
    assert "in late_fault_environment:Late, training episode 1, step 1" in str(told.value)


def test_a_stream_that_does_not_repeat_is_refused():
    stream = make("impure_environment:HiddenState", ONE, 2, options={})
    run(stream, 0, 3)
    again = make("impure_environment:HiddenState", ONE, 2, options={})
    run(again, 0, 7)
    with pytest.raises(ValueError, match="does not repeat"):
        again.load(stream.state())


def test_a_state_with_a_part_missing_is_refused():
    stream = make()
    run(stream, 0, 9)
    state = stream.state()
    for name in (*state.tensors, *state.counters):
        less = State(
            {k: v for k, v in state.tensors.items() if k != name},
            {k: v for k, v in state.counters.items() if k != name},
        )
        with pytest.raises(ValueError, match=name):
            make().load(less)
