"""A loss's derivatives by a network's outputs, from those by log π, V and H.

They pass through the action head.
"""

from typing import NamedTuple

import numpy as np

from drumline.algorithms.network_gradients import Derived
from drumline.functional.losses import Loss, LossRows, LossTerms, kl_estimates
from drumline.policies.action_gradients import action_terms
from drumline.policies.actions import ActionHead


class Compared(NamedTuple):
    """Actions of some rows, and the targets that the network's outputs are compared with."""

    actions: np.ndarray
    old_log_probs: np.ndarray
    old_values: np.ndarray
    advantages: np.ndarray
    returns: np.ndarray

    def take(self, rows: np.ndarray, advantages: np.ndarray) -> "Compared":
        """Return the rows with these indices, with advantages of their own."""
        return Compared(
            self.actions.take(rows, axis=0),
            self.old_log_probs.take(rows),
            self.old_values.take(rows),
            advantages,
            self.returns.take(rows),
        )


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
    actions, old_log_probs, old_values, advantages, returns = [column[part] for column in compared]
    terms = action_terms(head, outputs, actions)
    rows = LossRows(
        terms.log_probs, old_log_probs, terms.entropies, values, old_values, advantages, returns
    )
    found = loss(rows, divisor)
    if not (found.d_log_probs.shape == found.d_values.shape == values.shape):
        raise _broadcast(found, len(values))
    if np.ndim(found.d_entropies) and np.shape(found.d_entropies) != values.shape:
        raise _broadcast(found, len(values))
    distances = kl_estimates(terms.log_probs, old_log_probs)
    metrics = {
        **found.metrics,
        "policy_entropy_nats": float(np.add.reduce(terms.entropies)) / divisor,
        "approximate_kl_nats": float(np.add.reduce(distances)) / divisor,
    }
    d_outputs = terms.d_outputs(found.d_log_probs, found.d_entropies)
    return Derived(
        np.asarray(d_outputs, np.float32), np.asarray(found.d_values, np.float32), metrics
    )


def _broadcast(terms: LossTerms, count: int) -> ValueError:
    """Return the error for shapes that NumPy would silently broadcast to the rows."""
    shapes = ", ".join(
        f"{name} of shape {list(np.shape(number))}"
        for name, number in zip(LossTerms._fields[1:], terms[1:], strict=True)
    )
    return ValueError(f"a loss returned {shapes} for {count} rows")
