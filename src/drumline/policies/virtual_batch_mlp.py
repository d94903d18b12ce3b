"""Multilayer perceptrons whose hidden layers have virtual batch normalisation.

A hidden layer's outputs y = x W become f(γ (y − μ) / √(v + ε) + β), with mean μ and variance v of
the same outputs on a reference batch, under the same parameters (Salimans et al. 2016). It has no
bias of its own, which μ would take away again. The last layer is not normalised.

Parameters are flat, layer by layer: weights `[inputs, outputs]` row by row, then of a hidden layer
a scale γ and a shift β per output, of the last one a bias.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np

from drumline.policies.convolutional import EPSILON
from drumline.policies.initial_layers import Initialization
from drumline.policies.mlp import OBSERVATION_CLIP, PUBLISHED, MLPPolicy, aligned_zeros
from drumline.policies.spec import PolicySpec


def tensor_shapes(spec: PolicySpec) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of weights `[inputs, outputs]` and of what is added, in their order."""
    return tuple(s for inputs, outputs, n in _layers(spec) for s in ((inputs, outputs), (n,)))


def parameter_count(spec: PolicySpec) -> int:
    """Return P."""
    return sum(inputs * outputs + n for inputs, outputs, n in _layers(spec))


def initial_vector(
    spec: PolicySpec, rng: np.random.Generator, rule: Initialization = PUBLISHED
) -> np.ndarray:
    """Return weights by a rule, scales 1 and shifts 0 `[P]`; the last bias is the rule's, too."""
    parts: list[np.ndarray] = []
    layers = _layers(spec)
    for number, (inputs, outputs, additions) in enumerate(layers):
        last = number == len(layers) - 1
        parts.append(rule.weights(rng, inputs, outputs, last=last).astype(np.float32).ravel())
        added = np.zeros(additions, np.float32)
        if last:
            added[:] = rule.bias(rng, inputs, outputs)
        else:
            added[:outputs] = 1.0
        parts.append(added)
    return np.concatenate(parts)


class VirtualBatchMLP:
    """A policy on one observation at a time; its normalisation is folded into an `MLPPolicy`.

    Mean and variance follow from the parameters, the observation moments and the reference batch.
    They are computed once after these were loaded, before the next output.
    """

    def __init__(self, spec: PolicySpec):
        self._plain = MLPPolicy(folded_spec(spec))
        self.to_action = self._plain.to_action
        layers = _layers(spec)
        self.parameter_count = parameter_count(spec)
        self.vector = aligned_zeros(self.parameter_count)
        self._weights: list[np.ndarray] = []
        self._added: list[np.ndarray] = []
        self._folded: list[np.ndarray] = []
        start = there = 0
        for inputs, outputs, additions in layers:
            size, whole = inputs * outputs, (inputs + 1) * outputs
            self._weights.append(self.vector[start : start + size].reshape(inputs, outputs))
            self._added.append(self.vector[start + size : start + size + additions])
            folded = self._plain.vector[there : there + whole]
            self._folded.append(folded.reshape(inputs + 1, outputs))
            start, there = start + size + additions, there + whole
        count = spec.virtual_batch
        self._observations = np.zeros((count, spec.observation_size))
        self._rows = [_matrix(count, inputs) for inputs, _, _ in layers]
        self._normalize, self._relu = spec.normalize, spec.activation == "relu"
        self._mean = np.zeros(spec.observation_size)
        self._inverse_std = np.ones(spec.observation_size)
        self._stale = True

    def load_vector(self, parameters: np.ndarray) -> None:
        """Copy the parameters `[P]`."""
        self.vector[:] = parameters
        self._stale = True

    def loaded(self) -> None:
        """Fold again before the next output."""
        self._stale = True

    def load_moments(self, mean: np.ndarray, inverse_std: np.ndarray) -> None:
        """Set the observation moments `[D]`, which normalise the reference batch, too."""
        self._plain.load_moments(mean, inverse_std)
        self._mean[:] = mean
        self._inverse_std[:] = inverse_std
        self._stale = True

    def load_reference(self, observations: np.ndarray) -> None:
        """Take the reference batch `[N, D]` as it is when weights are folded.

        Its memory is kept, not its numbers: on a node they arrive after the policies are built.
        """
        self._observations = observations
        self._stale = True

    def output(self, observation: np.ndarray) -> np.ndarray:
        """Return the raw output `[O]`, valid until the next call."""
        if self._stale:
            self._fold()
        return self._plain.output(observation)

    def act(self, observation: np.ndarray) -> object:
        """Return the noiseless action."""
        return self.to_action(self.output(observation), None)

    def folded(self) -> np.ndarray:
        """Return the parameters of an MLP without normalisation that has the same outputs."""
        self._fold()
        return self._plain.vector.copy()

    def _fold(self) -> None:
        """Write the normalisation under the present parameters into weights and biases."""
        rows = self._rows[0]
        if self._normalize:
            difference = self._observations - self._mean
            np.multiply(difference, self._inverse_std, out=rows, casting="same_kind")
            np.clip(rows, -OBSERVATION_CLIP, OBSERVATION_CLIP, out=rows)
        else:
            rows[:] = self._observations
        for number, following in enumerate(self._rows[1:]):
            weights, added, folded = (
                self._weights[number],
                self._added[number],
                self._folded[number],
            )
            np.dot(self._rows[number], weights, out=following)
            mean = following.mean(axis=0, dtype=np.float64).astype(np.float32)
            spread = np.square(following - mean).mean(axis=0, dtype=np.float64)
            outputs = weights.shape[1]
            scale = added[:outputs] / np.sqrt(spread.astype(np.float32) + np.float32(EPSILON))
            np.multiply(weights, scale, out=folded[:-1])
            folded[-1] = added[outputs:] - mean * scale
            np.multiply(following, scale, out=following)
            np.add(following, folded[-1], out=following)
            if self._relu:
                np.maximum(following, np.float32(0.0), out=following)
            else:
                np.tanh(following, out=following)
        self._folded[-1][:-1] = self._weights[-1]
        self._folded[-1][-1] = self._added[-1]
        self._stale = False


def folded_spec(spec: PolicySpec) -> PolicySpec:
    """Return the MLP without normalisation that `VirtualBatchMLP.folded` is about."""
    return replace(spec, bias=True, virtual_batch=0)


def _layers(spec: PolicySpec) -> list[tuple[int, int, int]]:
    """Return inputs and outputs of each layer, and the number of parameters behind its weights."""
    sizes = list(pairwise((spec.observation_size, *spec.hidden, spec.head.output_size)))
    return [(a, b, 2 * b) for a, b in sizes[:-1]] + [(*sizes[-1], sizes[-1][1])]


def _matrix(rows: int, columns: int) -> np.ndarray:
    return aligned_zeros(rows * columns).reshape(rows, columns)
