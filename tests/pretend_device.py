"""A device that torch has in this process alone: memory that no operator may mix with the host's.

Import it in a process of its own: it registers torch's one private backend. Its tensors have no
`numpy()`, and an operator that gets tensors of both kinds raises, as on a GPU.
"""

from typing import Any

import torch
from torch.utils import _pytree as trees  # pyright: ignore[reportPrivateUsage]
from torch.utils import backend_registration

NAME = "pretend"
_COPIES = {torch.ops.aten.copy_.default, torch.ops.aten._to_copy.default}
_TO_PYTHON = {torch.ops.aten._local_scalar_dense.default}


class Pretend(torch.Tensor):
    """A tensor of the device; `raw` has its numbers."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # pyright: ignore

    @staticmethod
    def __new__(cls, raw: torch.Tensor) -> "Pretend":
        made = torch.Tensor._make_wrapper_subclass(  # pyright: ignore
            cls,
            raw.shape,
            strides=raw.stride(),
            storage_offset=raw.storage_offset(),
            dtype=raw.dtype,
            device=torch.device(NAME, 0),
        )
        made.raw = raw
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return carried_out(func, *args, **(kwargs or {}))


def carried_out(func: Any, *args: Any, **kwargs: Any) -> Any:
    """Run an operator on the numbers behind its tensors."""
    given = [part for part in trees.tree_leaves((args, kwargs)) if isinstance(part, torch.Tensor)]
    own = [part for part in given if isinstance(part, Pretend)]
    if len(own) < len(given) and func not in _COPIES:
        raise RuntimeError(f"{func} got tensors of the host and of the device")
    args, kwargs = trees.tree_map(
        lambda part: part.raw if isinstance(part, Pretend) else part, (args, kwargs)
    )
    there = True
    if kwargs.get("device") is not None:
        there = torch.device(kwargs["device"]).type == NAME
        kwargs = {**kwargs, "device": torch.device("cpu")}
    results = func(*args, **kwargs)
    if not there or func in _TO_PYTHON:
        return results
    wrapped = {id(part.raw): part for part in own}
    if func is torch.ops.aten.copy_.default:
        return wrapped.get(id(results), results)
    return trees.tree_map(
        lambda part: (
            (wrapped[id(part)] if id(part) in wrapped else Pretend(part))
            if isinstance(part, torch.Tensor)
            else part
        ),
        results,
    )


backend_registration._setup_privateuseone_for_python_backend(NAME)  # pyright: ignore
_LIBRARY = torch.library.Library("_", "IMPL")
_LIBRARY.fallback(carried_out, "PrivateUse1")
