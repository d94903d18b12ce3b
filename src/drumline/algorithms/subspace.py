"""OpenAI-ES in a random subspace: the search is over z, the policy is θ₀ + M z."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float32

from drumline.algorithms.openai_es import OpenAIES
from drumline.functional.perturbation import perturb
from drumline.functional.subspace import Subspace
from drumline.tasks import Evaluate, Evaluation
from drumline.types import Metrics, State

_ORIGIN, _COORDINATES = "initial_parameters", "coordinates"


class SubspaceES:
    """A search over the D coordinates z of θ = θ₀ + M z (Li, Farkhoor, Liu & Yosinski 2018).

    Perturbations, gradient, optimiser and weight decay are those of z, which begins at 0. Workers
    get θ and perturb it by σ M ε; θ₀ and z are the state, M is named by the seed.
    """

    def __init__(
        self,
        origin: Float32[np.ndarray, " P"],
        subspace: Subspace,
        search: OpenAIES,
        update_threads: int = 1,
    ):
        """`search` is over vectors `[D]`."""
        if search.parameters.shape != (subspace.spec.dimensions,):
            raise ValueError(
                f"a subspace of {subspace.spec.dimensions} dimensions cannot be searched by "
                f"{search.parameters.size} parameters"
            )
        self._origin = np.array(origin, np.float32)
        self._subspace = subspace
        self._read = subspace.reader()
        self._search = search
        self._threads = update_threads
        self._moved()

    @property
    def parameters(self) -> Float32[np.ndarray, " P"]:
        """Return θ."""
        return self._parameters

    @property
    def coordinates(self) -> Float32[np.ndarray, " D"]:
        """Return z."""
        return self._search.parameters

    @property
    def generation(self) -> int:
        """Return the number of generations told so far."""
        return self._search.generation

    def ask(self, count: int) -> list[Evaluate]:
        """Return the tasks of the next `count` members of this generation."""
        return self._search.ask(count)

    def candidate(self, task: Evaluate) -> Float32[np.ndarray, " P"]:
        """Return the perturbed parameters of a task."""
        out = np.empty_like(self._parameters)
        scale = task.sign * task.std
        perturb(self._parameters, self._read, task.noise_key, scale, out)
        return out

    def tell(self, results: Sequence[Evaluation]) -> Metrics:
        """Take one step of z; the gradient's norm is z's, the other metrics are θ's."""
        before = self._parameters
        metrics = self._search.tell(results)
        self._moved()
        length, step = np.linalg.norm(before), np.linalg.norm(self._parameters - before)
        metrics["parameter_norm"] = float(np.linalg.norm(self._parameters))
        metrics["update_ratio"] = float(step) / max(float(length), 1e-12)
        return metrics

    def published(self) -> dict[str, np.ndarray]:
        """Return the arrays for workers: θ, not z."""
        return {**self._search.published(), "parameters": self._parameters.copy()}

    def state(self) -> State:
        """Return all learned state."""
        state = self._search.state()
        tensors = dict(state.tensors)
        tensors[_COORDINATES] = tensors.pop("parameters")
        return State({**tensors, _ORIGIN: self._origin.copy()}, state.counters)

    def load(self, state: State) -> None:
        """Load a state."""
        self._origin = state.tensor(_ORIGIN, like=self._origin)
        coordinates = state.tensor(_COORDINATES, like=self._search.parameters)
        self._search.load(State({**state.tensors, "parameters": coordinates}, state.counters))
        self._moved()

    def _moved(self) -> None:
        z = self._search.parameters
        self._parameters = self._subspace.moved(self._origin, z, self._threads)
