"""Shape checks and repeatable property tests for the whole suite."""

import hypothesis
from jaxtyping import install_import_hook

# Before any test imports them: signatures like Float[np.ndarray, "N"] are checked at run time, in
# this process only. Children and users do not pay for it.
install_import_hook(["drumline.functional", "drumline.algorithms"], "beartype.beartype")

# A red suite must be red again when it is run again, on any machine and under any load.
hypothesis.settings.register_profile(
    "repeatable", derandomize=True, database=None, deadline=None, max_examples=50
)
hypothesis.settings.load_profile("repeatable")
