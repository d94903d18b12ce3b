"""Note that a processor has no instructions for bf16."""

from typing import Any

from drumline.runs.machine import has_bf16


def slow_in_bf16(config: Any) -> str:
    """Return the sentence for a config in bf16 on a processor without instructions for it."""
    if getattr(config, "precision", "fp32") != "bf16" or has_bf16():
        return ""
    return "this processor has no bf16 instructions, so precision bf16 may be slow here"
