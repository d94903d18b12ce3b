"""Warning before a training in bf16 on a processor without instructions for it."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from drumline.api.slow_bf16 import slow_in_bf16

_SECONDS = 120
"""Longest time for which the two predictions are waited for."""


def bf16_warning(method: str, config: Any) -> Iterator[str]:
    """Yield the warning if one is due, and then the speeds predicted for both precisions.

    The pieces are timed in a process of their own, so that nothing of it reaches the training.
    """
    sentence = slow_in_bf16(config)
    if not sentence:
        return
    yield f"{sentence}; timing it beside fp32"
    speeds = [_speed(method, dataclasses.replace(config, precision=p)) for p in ("bf16", "fp32")]
    if None not in speeds:
        slow, fast = (f"{speed:,.0f}" for speed in speeds)
        yield f"predicted are {slow} env steps/s, {fast} with --precision fp32"


def _speed(method: str, config: Any) -> float | None:
    """Return the highest predicted env steps per second; None where nothing can be predicted."""
    asked = json.dumps({"method": method, "fields": dataclasses.asdict(config)})
    command = [sys.executable, "-m", "drumline.commands.bf16_warning"]
    try:
        done = subprocess.run(
            command, input=asked.encode(), capture_output=True, timeout=_SECONDS, check=True
        )
        return float(done.stdout.split()[-1])
    except (subprocess.SubprocessError, ValueError, IndexError):
        return None  # the training itself will say what is wrong


def _main() -> None:
    from drumline.api.foreign_code import importable_cwd
    from drumline.commands.config_file import typed_fields
    from drumline.commands.doctor import measured
    from drumline.recipes.methods import find_method

    importable_cwd()
    asked = json.load(sys.stdin)
    found = find_method(asked["method"])
    config = found.config(**typed_fields(asked["fields"]))
    rows = measured(found, config)["predicted"]
    print(max(row["env_steps_per_second"] for row in rows))


if __name__ == "__main__":
    _main()
