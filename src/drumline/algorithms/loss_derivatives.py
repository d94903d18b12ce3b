"""A loss's derivatives by a network's outputs: those by log π, V and H, through the action head."""

from typing import NamedTuple

import numpy as np

from drumline.algorithms.network_gradients import Derived
from drumline.functional.losses import Loss, LossRows, LossTerms, kl_estimates
from drumline.policies.action_gradients import action_terms
from drumline.policies.actions import ActionHead


class Compared(NamedTuple):
    """Actions of some rows, and what the network's answers to those rows are compared with."""

    actions: np.ndarray
    old_log_probs: np.ndarray
    old_values: np.ndarray
    advantages: np.ndarray
    returns: np.ndarray

    def take(self, rows: np.ndarray) -> "Compared":
        """Return the rows with these indices."""
        return Compared(*(column.take(rows, axis=0) for column in self))


def derived(
    loss: Loss,
    head: ActionHead,
    compared: Compared,
    divisor: int,
    outputs: np.ndarray,
    values: np.ndarray,
    part: slice,
) -> Derived:
    """Return the loss's derivatives by `outputs` and `values`, those of the rows `part`.

    Entropy and KL are measured of every loss.
    """
    actions, old_log_probs, old_values, advantages, returns = (column[part] for column in compared)
    with np.errstate(over="ignore", invalid="ignore"):  # found in the gradient
        terms = action_terms(head, outputs, actions)
        rows = LossRows(
            terms.log_probs, old_log_probs, terms.entropies, values, old_values, advantages, returns
        )
        found = loss(rows, divisor)
        d_log_probs, d_values, d_entropies = _by_row(found, len(values))
        distances = kl_estimates(terms.log_probs, old_log_probs)
        metrics = {
            **found.metrics,
            "policy_entropy_nats": float(np.add.reduce(terms.entropies)) / divisor,
            "approximate_kl_nats": float(np.add.reduce(distances)) / divisor,
        }
        return Derived(terms.d_outputs(d_log_probs, d_entropies), d_values, metrics)


def _by_row(terms: LossTerms, count: int) -> list[np.ndarray]:
    """Return the three derivatives in float32; refuses what NumPy would broadcast."""
    for name, number in zip(LossTerms._fields[1:], terms[1:], strict=True):
        shape = np.shape(number)
        if shape != (count,) and (shape or name != "d_entropies"):
            raise ValueError(f"a loss returned {name} of shape {list(shape)} for {count} rows")
    return [np.asarray(number, np.float32) for number in terms[1:]]
