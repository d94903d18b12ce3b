"""Standard output of a command, apart from the descriptor that an environment's C code knows."""

from drumline.runtime.printed import PRINTED


def print_apart() -> None:
    """Print to a descriptor of the command's own, so that 1 can be captured while it trains."""
    PRINTED.leave_first()
