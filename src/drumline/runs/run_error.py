"""RunError: a run folder that cannot be used as asked."""


class RunError(Exception):
    """One sentence for the user: the fault, the wrong value, and the flag to change."""
