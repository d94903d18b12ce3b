"""NaN among a network's outputs, where any code may have computed them."""

from math import isnan

import numpy as np


def with_nan_first(output: np.ndarray) -> np.ndarray:
    """Return raw outputs `[O]` whose first one is NaN if any is, as an MLP's are.

    Loops of episodes look at the first alone.

    >>> with_nan_first(np.array([1.0, np.nan])), with_nan_first(np.array([np.inf, -np.inf]))
    (array([nan, nan]), array([ inf, -inf]))
    """
    # Of few numbers, in a fraction of the time of NumPy's `isnan`.
    if isnan(sum(output.tolist())) and np.isnan(output).any():
        output[0] = np.nan
    return output
