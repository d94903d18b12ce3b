"""A simulated world for the real runtime: one integer is one universe of failures."""
