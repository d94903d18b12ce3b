"""CUDA devices of this machine: their names, and how quickly they multiply and copy."""

import time
from collections.abc import Callable
from typing import Any

import torch

from drumline.functional.torch_devices import (
    Arithmetic,
    described,
    device_count,
    device_of,
    refuse_absent,
)

_SECONDS = 0.2
"""Time for each of three measurements of a device."""
_WIDE = 4096
_COPIED = 64 << 20


def device_facts() -> list[dict[str, Any]]:
    """Return name, memory and speed of each device; none without one."""
    names = [f"cuda:{index}" for index in range(device_count())]
    before = Arithmetic.now()
    try:
        return [{"device": name, "model": described(name), **speeds(name)} for name in names]
    finally:
        before.set()


def why_none() -> str:
    """Return why there is no device, in one sentence; empty where there is one."""
    try:
        refuse_absent("cuda")
    except ValueError as error:
        return str(error).removeprefix("--device cuda: ").removesuffix(", or leave --device out")
    return ""


def speeds(name: str, wide: int = _WIDE, copied: int = _COPIED) -> dict[str, float]:
    """Return memory, products of two square matrices in float32, and copies to and from it."""
    device = device_of(name) or torch.device(name)
    cuda = device.type == "cuda"
    left = torch.ones(wide, wide, device=device)
    product = torch.empty_like(left)
    there = torch.empty(copied, dtype=torch.uint8, device=device)
    here = torch.zeros(copied, dtype=torch.uint8, pin_memory=cuda)

    def wait() -> None:
        if cuda:
            torch.cuda.synchronize(device)

    def rate(work: Callable[[], object]) -> float:
        work()
        wait()
        done, began = 0, time.perf_counter()
        while time.perf_counter() - began < _SECONDS:
            work()
            wait()
            done += 1
        return done / (time.perf_counter() - began)

    memory = torch.cuda.get_device_properties(device).total_memory if cuda else 0
    products = rate(lambda: torch.mm(left, left, out=product))
    up = rate(lambda: there.copy_(here, non_blocking=True))
    down = rate(lambda: here.copy_(there, non_blocking=True))
    return {
        "memory_gib": round(memory / 2**30, 1),
        "products_gflops": round(products * 2 * wide**3 / 1e9, 1),
        "to_device_gib_per_second": round(up * copied / 2**30, 2),
        "to_host_gib_per_second": round(down * copied / 2**30, 2),
    }


def device_lines(facts: list[dict[str, Any]], why: str) -> list[str]:
    """Return a line for each device, or one that says why there is none."""
    if not facts:
        return [f"GPU         none: {why}"]
    return [
        f"{fact['device']:<12}{fact['model']}, {fact['memory_gib']} GiB; products in float32 "
        f"{fact['products_gflops']:,.0f} GFLOP/s; pinned copies {fact['to_device_gib_per_second']} "
        f"GiB/s there, {fact['to_host_gib_per_second']} back"
        for fact in facts
    ]
