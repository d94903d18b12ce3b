"""Other people's optimisers as strategies."""

import random
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from algorithms.individuals_examples import same_state, search, sphere
from remembering_search import Remembers

from drumline import seeding
from drumline.algorithms import external, optimizer_packages
from drumline.algorithms.external import External, HiddenRandomness
from drumline.algorithms.individuals import live
from drumline.algorithms.optimizer_packages import cma_factory, named_factory, nevergrad_factory
from drumline.errors import StrategyFailed


class HillClimber:
    """A user's own optimiser: ask and tell, nothing else."""

    def __init__(self, start: np.ndarray, seed: int):
        self.best, self.fitness = start, -np.inf
        self.rng = np.random.default_rng(seed)
        self.heard: list[tuple[np.ndarray, float]] = []

    def ask(self) -> np.ndarray:
        return self.best + 0.3 * self.rng.standard_normal(self.best.size)

    def tell(self, vector: np.ndarray, fitness: float) -> None:
        self.heard.append((vector, fitness))
        if fitness > self.fitness:
            self.best, self.fitness = vector, fitness


class Answers(HillClimber):
    """Asks for what it is told to."""

    answer: Any = None

    def ask(self) -> Any:
        return self.answer


@pytest.fixture
def users_module(monkeypatch: pytest.MonkeyPatch) -> Any:
    module: Any = types.ModuleType("users_search")
    module.HillClimber, module.number, module.Wrong = HillClimber, 3, lambda start, seed: object()
    monkeypatch.setitem(sys.modules, "users_search", module)
    return module


def test_a_users_object_searches_by_name(users_module: Any):
    strategy = External(np.zeros(3), named_factory("users_search:HillClimber"), seed=0)
    search(strategy, sphere, 200, in_flight=4)
    assert sphere(strategy.parameters) > -0.3


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_module_here:f", "module 'no_such_module_here' cannot be imported"),
        ("users_search:missing", "has no callable 'missing'"),
        ("users_search:number", "has no callable 'number'"),
        ("users_search:Wrong", r"returned object, which has no ask\(\)"),
    ],
)
def test_a_name_that_leads_nowhere_is_refused(users_module: Any, path: str, message: str):
    with pytest.raises(ValueError, match=message):
        External(np.zeros(3), named_factory(path), seed=0)


def test_what_was_asked_comes_back_in_the_optimisers_own_precision():
    made: list[HillClimber] = []

    def make(start: np.ndarray, seed: int) -> HillClimber:
        made.append(HillClimber(start.astype(np.float64), seed))
        return made[-1]

    strategy = External(np.zeros(2), make, seed=0)
    unchanged, changed = strategy.ask(2)
    refined = changed.vector + np.float32(1)
    strategy.tell([live(unchanged, 1.0), live(changed._replace(vector=refined), 2.0)])
    (first, _), (second, fitness) = made[0].heard
    assert first.dtype == np.float64
    assert not np.array_equal(first, unchanged.vector)  # not rounded to float32 on the way
    assert second.tolist() == refined.tolist()
    assert fitness == 2.0


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([1.0, float("nan")], "climber asked for a vector of which 1 of 2 numbers"),
        (np.array([np.inf, np.inf]), "of which 2 of 2 numbers are not finite"),
        (np.array([1e300, 0.0]), "of which 1 of 2 numbers are not finite in float32"),
        (np.zeros(3), r"shape \[3\] \(a ndarray\), after 0 tells; the policy has 2 parameters"),
        (np.zeros(2, np.int64), "climber asked for int64"),
        (np.zeros(2, np.longdouble), "no checkpoint can hold: return float64"),
        (None, r"climber asked for float64 of shape \[\] \(a NoneType\)"),
        ("ten", "climber asked for a str of no numbers, after 0 tells"),
        ([[1.0], [1.0, 2.0]], "climber asked for a list of no numbers"),
    ],
)
def test_an_answer_that_no_policy_can_hold_is_refused(answer: Any, message: str):
    def make(start: np.ndarray, seed: int) -> Answers:
        made = Answers(start, seed)
        made.answer = answer
        return made

    strategy = External(np.zeros(2), make, seed=0, name="climber")
    with pytest.raises(StrategyFailed, match=message):
        strategy.ask(1)


@pytest.mark.parametrize("raised", [KeyError("lost"), SystemExit("lost")])
@pytest.mark.parametrize("where", ["ask", "tell", "discard", "recommend", "metrics"])
def test_what_an_optimiser_raises_names_it(where: str, raised: BaseException):
    class Breaks(HillClimber):
        def __getattribute__(self, name: str) -> Any:
            return self.breaks if name == where else super().__getattribute__(name)

        def breaks(self, *arguments: Any) -> None:
            raise raised

    strategy = External(np.zeros(2), Breaks, seed=0, name="climber")
    message = f"climber raised in {where} after . tells: {type(raised).__name__}: '?lost'?"

    def ask_and_tell() -> None:
        refined = strategy.ask(1)[0]._replace(vector=np.ones(2, np.float32))
        strategy.tell([live(refined, 1.0)])

    with pytest.raises(StrategyFailed, match=message) as caught:
        ask_and_tell()
    assert caught.value.__cause__ is raised


def test_an_optimisers_metrics_stand_for_none_of_ours():
    class Boasts(HillClimber):
        def metrics(self) -> dict[str, float]:
            return {"update_norm": -1.0, "sampling_std": 0.3}

    strategy = External(np.zeros(2), Boasts, seed=0)
    told = strategy.tell([live(strategy.ask(1)[0], 1.0)])
    assert told["update_norm"] > 0.0
    assert told["sampling_std"] == 0.3


class Careless(HillClimber):
    """Draws what does not follow from its seed, from an ask on."""

    free_from = 0

    def __init__(self, start: np.ndarray, seed: int):
        super().__init__(start, seed)
        self.asked = 0

    def ask(self) -> np.ndarray:
        self.asked += 1
        if self.asked > self.free_from:
            self.rng = np.random.default_rng()
        return super().ask()


def test_an_optimiser_with_randomness_of_its_own_is_refused_before_there_is_a_run():
    External(np.zeros(3), HillClimber, seed=0).rehearse()
    with pytest.raises(HiddenRandomness, match=r"climber, made twice .* --no-promise"):
        External(np.zeros(3), Careless, seed=0, name="climber").rehearse()


class OfGlobals(HillClimber):
    """Draws from the global generators, as some of Nevergrad's optimisers do."""

    def __init__(self, start: np.ndarray, seed: int):
        super().__init__(start, seed)
        self.scale = 0.1 + random.random()

    def ask(self) -> np.ndarray:
        return self.best + self.scale * np.random.standard_normal(self.best.size)

    def tell(self, vector: np.ndarray, fitness: float) -> None:
        super().tell(vector, fitness)
        self.scale *= 0.9 + 0.2 * random.random()


def lognormal() -> Any:
    pytest.importorskip("nevergrad")
    return nevergrad_factory("LognormalDiscreteOnePlusOne", std=0.3, budget=60)


@pytest.mark.parametrize("make", [lambda: OfGlobals, lognormal], ids=["own", "nevergrad"])
def test_numbers_of_the_global_generators_follow_from_the_seed_and_from_what_was_told(make: Any):
    def searched(tells: int, globals_begin_at: int) -> External:
        seeding.seed_globals(globals_begin_at)
        before = repr(np.random.get_state())
        strategy = External(np.zeros(5), optimizer, seed=3)
        strategy.rehearse()
        search(strategy, sphere, tells)
        assert before == repr(np.random.get_state())
        return strategy

    optimizer = make()
    with seeding.kept_globals():
        whole, other, stopped = searched(40, 0), searched(40, 1), searched(25, 2)
        assert whole.parameters.tobytes() == other.parameters.tobytes()
        assert whole.state().tensors["journal_asked"].tobytes() == (
            other.state().tensors["journal_asked"].tobytes()
        )
        resumed = External(np.zeros(5), optimizer, seed=3)
        resumed.load(stopped.state())
        search(resumed, sphere, 15)
    assert resumed.parameters.tobytes() == whole.parameters.tobytes()
    assert len(set(whole.state().tensors["journal_asked"].tolist())) > 30


@pytest.mark.parametrize(
    ("name", "words"),
    [("MultiDS", "is a portfolio with DSproba, which asks for one"), ("PolyLN", "in every proc")],
)
def test_a_nevergrad_optimizer_that_cannot_be_repeated_is_refused(name: str, words: str):
    pytest.importorskip("nevergrad")
    with pytest.raises(ValueError, match=words):
        nevergrad_factory(name, std=0.1, budget=10)


def test_randomness_in_a_tell_is_found_before_there_is_a_run():
    class Careful(HillClimber):
        def tell(self, vector: np.ndarray, fitness: float) -> None:
            super().tell(vector, fitness)
            self.rng = np.random.default_rng()

    with pytest.raises(HiddenRandomness, match="made twice"):
        External(np.zeros(3), Careful, seed=0).rehearse()


def test_an_optimiser_that_does_not_repeat_its_journal_is_not_gone_on_with():
    class Later(Careless):
        free_from = 5

    strategy = External(np.zeros(3), Later, seed=0, name="climber")
    strategy.rehearse()
    search(strategy, sphere, 5)
    again = External(np.zeros(3), Later, seed=0, name="climber")
    again.load(strategy.state())
    search(strategy, sphere, 2)
    with pytest.raises(HiddenRandomness, match="climber, told again what the run has told it"):
        again.load(strategy.state())
    older = strategy.state()
    del older.tensors["journal_asked"]
    again.load(older)  # nothing is known of what was asked


def test_a_factory_that_raises_is_named(users_module: Any):
    def licensed(start: np.ndarray, seed: int) -> None:
        raise OSError("no licence")

    users_module.licensed = licensed
    message = "'users_search:licensed' cannot be made: OSError: no licence .*test_external.py, line"
    with pytest.raises(ValueError, match=message):
        External(np.zeros(3), named_factory("users_search:licensed"), seed=0)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("class Search(", r"raised SyntaxError: .*broken_search.py, line 1\)"),
        ("\n{}['sigma']", r"raised KeyError: 'sigma' \(.*broken_search.py, line 2\)"),
        ("raise SystemExit('no licence')", "raised SystemExit: no licence"),
    ],
)
def test_a_module_that_raises_at_import_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, message: str
):
    (tmp_path / "broken_search.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=f"importing broken_search {message}"):
        named_factory("broken_search:Search")


def test_a_recommendation_that_is_not_finite_is_refused():
    class Recommends(HillClimber):
        def recommend(self) -> np.ndarray:
            return np.full(2, np.nan)

    strategy = External(np.zeros(2), Recommends, seed=0)
    with pytest.raises(StrategyFailed, match="recommends a vector of which 2 of 2"):
        strategy.tell([live(strategy.ask(1)[0], 0.0)])


def test_no_candidate_is_told_twice():
    strategy = External(np.zeros(2), HillClimber, seed=0)
    (candidate,) = strategy.ask(1)
    strategy.tell([live(candidate, 1.0)])
    with pytest.raises(ValueError, match="candidate 0 is not out"):
        strategy.tell([live(candidate, 1.0)])


def test_a_nevergrad_optimizer_that_waits_for_each_answer_is_refused():
    pytest.importorskip("nevergrad")
    with pytest.raises(ValueError, match="Nevergrad's Cobyla asks for one vector after the other"):
        nevergrad_factory("Cobyla", std=0.1, budget=10)


def test_a_state_shares_its_journal_with_the_next_and_keeps_what_it_says():
    strategy = External(np.zeros(2), HillClimber, seed=0)

    def refined(count: int) -> None:
        for candidate in strategy.ask(count):
            told = live(candidate, float(candidate.index))
            strategy.tell([told._replace(vector=told.vector + np.float32(1.0))])

    refined(10)
    before = strategy.state().tensors
    kept = {name: array.copy() for name, array in before.items()}
    refined(1)
    after = strategy.state().tensors
    for name in before:  # a state is taken after every event: copies would add up to a square
        assert np.shares_memory(before[name], after[name])
    refined(300)
    for name, array in kept.items():
        assert np.array_equal(before[name], array)
        assert np.array_equal(strategy.state().tensors[name][: len(array)], array)


def test_a_journal_that_is_cut_short_is_refused():
    strategy = External(np.zeros(2), HillClimber, seed=0)
    search(strategy, sphere, 3)
    state = strategy.state()
    kept = state.tensors["journal_fitness"]
    state.tensors["journal_fitness"] = kept[:-1]
    with pytest.raises(ValueError, match="the journal has 6 events, 5 fitnesses"):
        strategy.load(state)
    state.tensors["journal_fitness"] = kept
    state.counters["tells"] = 4
    with pytest.raises(ValueError, match="the journal holds 3 tells, the state counts 4"):
        strategy.load(state)


@pytest.mark.parametrize(
    ("package", "make"),
    [
        ("cma", lambda: cma_factory(std=0.1, full_covariance=True)),
        ("nevergrad", lambda: nevergrad_factory("DE", std=0.1, budget=10)),
    ],
)
def test_a_missing_package_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, package: str, make: Callable[[], Any]
):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=rf"pip install 'drumline\[{package}\]'"):
        make()


def test_a_full_covariance_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("cma")
    monkeypatch.setattr(optimizer_packages, "LARGEST_FULL_COVARIANCE_BYTES", 8 * 9)
    make = cma_factory(std=0.1, full_covariance=True)
    External(np.zeros(3), make, seed=0)
    with pytest.raises(ValueError, match=r"4 parameters .*use --strategy sep-cma"):
        External(np.zeros(4), make, seed=0)


@pytest.mark.parametrize("full", [True, False])
def test_cma_refuses_a_single_parameter_before_its_first_vector(full: bool):
    pytest.importorskip("cma")
    make = cma_factory(std=0.1, full_covariance=full)
    name = "cma" if full else "sep-cma"
    with pytest.raises(ValueError, match=f"^--strategy {name} searches 2 .*, got 1: --strategy"):
        External(np.zeros(1), make, seed=0)
    search(External(np.zeros(2), make, seed=0), sphere, 30)


def test_cma_bears_more_parameters_than_its_two_point_rule_would():
    """From 300 parameters on pycma would want samples of its own back in their places."""
    pytest.importorskip("cma")
    strategy = External(np.zeros(301), cma_factory(std=0.1, full_covariance=False), seed=0)
    search(strategy, sphere, 60, in_flight=5, rng=np.random.default_rng(0))
    assert sphere(strategy.parameters) > -301.0


def test_cma_learns_a_correlation_that_sep_cma_cannot_hold():
    """A valley 1000 times as narrow as long, at 45 degrees."""
    pytest.importorskip("cma")

    def valley(x: np.ndarray) -> float:
        return -float(1e6 * (x[0] - x[1]) ** 2 + (x[0] + x[1] - 2) ** 2)

    reached = []
    for full in (True, False):
        make = cma_factory(std=0.3, full_covariance=full)
        strategy = External(np.zeros(2), make, seed=0)
        search(strategy, valley, 400, measure_mean=False)
        reached.append(valley(strategy.parameters))
    assert reached[0] > -1e-6
    assert reached[1] < -1e-3


def test_cma_leaves_the_global_generator_alone():
    pytest.importorskip("cma")
    before = np.random.get_state()[1]
    search(External(np.zeros(3), cma_factory(std=0.1, full_covariance=True), seed=0), sphere, 20)
    assert np.array_equal(before, np.random.get_state()[1])


def test_an_unknown_nevergrad_optimizer_is_refused_with_its_neighbours():
    pytest.importorskip("nevergrad")
    with pytest.raises(ValueError, match=r"no optimizer 'oneplus'; it has .*OnePlus"):
        nevergrad_factory("oneplus", std=0.1, budget=10)


def test_a_nevergrad_design_that_is_spent_says_so():
    pytest.importorskip("nevergrad")
    make = nevergrad_factory("ScrHammersleySearch", std=0.1, budget=10)
    strategy = External(np.zeros(2), make, seed=0)
    search(strategy, sphere, 10)
    with pytest.raises(StrategyFailed, match="its 10 are spent: give a larger --strategy-budget"):
        strategy.ask(1)


def test_nevergrad_forgets_what_was_refined():
    pytest.importorskip("nevergrad")
    strategy = External(np.zeros(2), nevergrad_factory("DE", std=0.1, budget=10), seed=0)
    out = strategy.ask(4)
    told = [live(c._replace(vector=c.vector + np.float32(1)), 0.0) for c in out]
    strategy.tell(told)
    optimizer: Any = strategy._optimizer
    assert not optimizer._asked


@pytest.mark.parametrize("full", [True, False])
def test_cma_says_how_wide_and_how_stretched_its_distribution_is(full: bool):
    pytest.importorskip("cma")
    strategy = External(np.zeros(3), cma_factory(std=0.5, full_covariance=full), seed=0)

    def stretched(vector: np.ndarray) -> float:
        return -float(np.square(vector * (1.0, 3.0, 9.0)).sum())

    (first,) = strategy.ask(1)
    metrics = strategy.tell([live(first, stretched(first.vector))])
    assert metrics["sampling_std"] == pytest.approx(0.5, rel=1e-4)
    assert metrics["condition_number"] == pytest.approx(1.0, rel=1e-3)
    for _ in range(300):
        (candidate,) = strategy.ask(1)
        metrics = strategy.tell([live(candidate, stretched(candidate.vector))])
    assert metrics["sampling_std"] < 0.1
    assert 10 < metrics["condition_number"] < 1000  # 81 where it has learned everything


def test_a_users_object_may_say_what_its_distribution_is(users_module: Any):
    users_module.HillClimber.metrics = lambda self: {"sampling_std": 0.3}
    try:
        strategy = External(np.zeros(3), named_factory("users_search:HillClimber"), seed=0)
        (candidate,) = strategy.ask(1)
        assert strategy.tell([live(candidate, 1.0)])["sampling_std"] == 0.3
    finally:
        del users_module.HillClimber.metrics


@pytest.fixture
def every_twenty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external, "SNAPSHOT_TELLS", 20)


def restored(strategy: External, make: Any) -> External:
    again = External(np.zeros(3), make, seed=0)
    state = strategy.state()
    copies = {name: tensor.copy() for name, tensor in state.tensors.items()}
    again.load(type(state)(copies, dict(state.counters)))
    return again


@pytest.mark.parametrize("tells", [1, 19, 20, 21, 47, 100])
def test_an_optimiser_with_a_state_goes_on_from_it_with_the_same_bits(
    every_twenty: None, tells: int
):
    strategy = External(np.zeros(3), Remembers, seed=0)
    search(strategy, sphere, tells, in_flight=4, rng=np.random.default_rng(1))
    again = restored(strategy, Remembers)
    assert same_state(strategy, again)
    optimizer: Any = again._optimizer
    assert optimizer.heard == tells % 20  # of all tells only those since its state
    for _ in range(50):
        (one,), (other,) = strategy.ask(1), again.ask(1)
        assert one.index == other.index
        assert one.vector.tobytes() == other.vector.tobytes()
        refined = one._replace(vector=one.vector + np.float32(0.1))
        for each in (strategy, again):
            each.tell([live(refined, sphere(refined.vector))])
    assert same_state(strategy, again)


class WritesIntoItsArguments(Remembers):
    """Computes with the vectors that it gets in place."""

    def tell(self, vector: np.ndarray, fitness: float) -> None:
        super().tell(vector.copy(), fitness)
        vector -= 1.0

    def discard(self, vector: np.ndarray) -> None:
        vector -= 1.0


@pytest.mark.parametrize("changed_by", [0.0, 0.1])
@pytest.mark.parametrize("loaded", [False, True])
def test_an_optimiser_may_write_into_a_vector_that_its_state_was_taken_beside(
    every_twenty: None, changed_by: float, loaded: bool
):
    strategy = External(np.zeros(3), WritesIntoItsArguments, seed=0)
    out = [*strategy.ask(4)]
    for tells in range(1, 24):
        one = out.pop(0)
        heard = one._replace(vector=one.vector + np.float32(changed_by))
        strategy.tell([live(heard, sphere(heard.vector))])
        out += strategy.ask(1)
        if loaded and tells == 20:
            strategy = restored(strategy, WritesIntoItsArguments)
    assert same_state(strategy, restored(strategy, WritesIntoItsArguments))


def test_the_state_of_an_optimiser_with_a_state_does_not_grow(every_twenty: None):
    strategy = External(np.zeros(3), Remembers, seed=0)
    sizes = []
    for _ in range(3):
        search(strategy, sphere, 60)
        sizes.append(sum(tensor.nbytes for tensor in strategy.state().tensors.values()))
    assert sizes[0] == sizes[1] == sizes[2]


def test_a_journal_of_before_there_was_a_state_goes_on(every_twenty: None):
    strategy = External(np.zeros(3), HillClimber, seed=0)

    class Now(HillClimber):
        def state(self) -> dict[str, Any]:
            drawn: Any = self.rng.bit_generator.state["state"]
            words = [
                drawn[name] >> 32 * i & 0xFFFFFFFF for name in ("state", "inc") for i in range(4)
            ]
            return {"best": self.best, "fitness": self.fitness, "words": np.array(words)}

        def load(self, state: dict[str, Any]) -> None:
            self.best, self.fitness = state["best"], state["fitness"]
            whole: Any = self.rng.bit_generator.state
            for name, words in zip(("state", "inc"), np.split(state["words"], 2), strict=True):
                whole["state"][name] = sum(int(word) << 32 * i for i, word in enumerate(words))
            self.rng.bit_generator.state = whole

    search(strategy, sphere, 50)
    again = restored(strategy, Now)
    once_more = restored(again, Now)
    for each in (strategy, again, once_more):
        search(each, sphere, 30)
    assert "snapshot_tells" in again.state().counters
    assert "snapshot_tells" not in strategy.state().counters
    assert same_state(again, once_more)
    assert again.parameters.tobytes() == strategy.parameters.tobytes()
    External(np.zeros(3), Now, seed=0).rehearse()


def test_a_state_that_does_not_hold_everything_is_refused_before_there_is_a_run():
    class Forgets(Remembers):
        def state(self) -> dict[str, Any]:
            return {**super().state(), "asked": 0}

    External(np.zeros(3), Remembers, seed=0).rehearse()
    with pytest.raises(StrategyFailed, match=r"other vectors once its state\(\) is given to load"):
        External(np.zeros(3), Forgets, seed=0).rehearse()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "climber has a state.. of NoneType"),
        ({"x": "text"}, "has 'x' in its state.., a str"),
        ({"x": np.array([object()])}, "has 'x' in its state.., a ndarray of object"),
        ({"x": np.zeros(2, np.longdouble)}, "numbers of at most 8 bytes"),
        ({3: 1.0}, "has 3 in its state"),
    ],
)
def test_a_state_that_no_checkpoint_can_hold_is_refused(answer: Any, message: str):
    class Says(Remembers):
        def state(self) -> Any:
            return answer

    with pytest.raises(StrategyFailed, match=message):
        External(np.zeros(3), Says, seed=0, name="climber").rehearse()


def test_a_state_of_an_optimiser_that_no_longer_takes_one_is_refused(every_twenty: None):
    strategy = External(np.zeros(3), Remembers, seed=0)
    search(strategy, sphere, 20)
    with pytest.raises(StrategyFailed, match=r"no state\(\) and load\(\), but the checkpoint"):
        External(np.zeros(3), HillClimber, seed=0).load(strategy.state())


def test_a_replay_says_how_far_it_has_come():
    strategy = External(np.zeros(3), HillClimber, seed=0)
    search(strategy, sphere, 5)
    again = External(np.zeros(3), HillClimber, seed=0)
    seen: list[tuple[int, int]] = []
    again.replaying = lambda done, events: seen.append((done, events))
    again.load(strategy.state())
    assert seen == [(done, 10) for done in range(11)]


def test_a_sample_leaves_the_search_as_it_was():
    strategy, other = (External(np.zeros(3), HillClimber, seed=0) for _ in range(2))
    left = iter(range(7))
    assert strategy.sample(lambda: next(left, None) is not None) == 7
    assert same_state(strategy, other)
    assert strategy.ask(1)[0].vector.tobytes() == other.ask(1)[0].vector.tobytes()
