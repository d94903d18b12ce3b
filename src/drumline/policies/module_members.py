"""Several members of a search in one call of a torch module, with noise of low rank.

A product x Wᵀ with a searched matrix is made once for all members; each adds (x B) Aᵀ, two thin
products (EGGROLL, Sarkar et al. 2025). All else of the module runs through `torch.func.vmap`.
"""

# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from drumline import seeding
from drumline.errors import ObjectiveProblem
from drumline.functional.low_rank import LowRank, LowRankNoise
from drumline.functional.perturbation import perturbed_pieces
from drumline.policies.searched_module import SearchedModule

_LEAST_SCALE = 0.02
_SHARE_OF_WEIGHTS = 0.3
"""Perturbations with which members are compared are that share of the parameters' own size."""
_CHECKS = 8
"""Calls whose outputs are compared at most, while these say nothing."""
_TOLERANCES = {torch.float32: 0.001, torch.bfloat16: 0.2}
"""Largest difference of a member's outputs, as a share of what the perturbation changed."""
_ROUNDINGS = 30.0
"""Roundings of the last digit that never count as a difference."""


class Member(NamedTuple):
    """One member of a call: θ + scale · ε of a key; scale 0 is θ itself."""

    key: int
    scale: float


class _Thin(NamedTuple):
    """Noise of one matrix for all members."""

    left: Tensor
    """σ A / √R, `[K, rows, R]`."""
    right: Tensor
    """B, `[K, columns, R]`."""


class ModuleMembers:
    """The module of an objective with `--members-per-call`: K members in one call.

    Inputs `[K, …]` hold one member's inputs behind another's; outputs `[K, …]` alike. In `forward`
    a layer sees the inputs of one member, as without members.
    """

    def __init__(self, searched: SearchedModule, layout: LowRank, noise: LowRankNoise):
        for name, part in searched.module.named_modules():
            if isinstance(part, torch.jit.ScriptModule):
                raise ObjectiveProblem(
                    f"the part {name!r} of the module is compiled (torch.jit), so members cannot "
                    "share its products: leave out --members-per-call"
                )
        self._searched = searched
        self._noise = noise
        self._places = dict(zip(searched.shapes, layout.places, strict=True))
        self._matrices = [name for name, place in self._places.items() if place.columns]
        self._vectors = [name for name, place in self._places.items() if not place.columns]
        self._dtype = next(iter(searched.parameters.values())).dtype
        self._members: Sequence[Member | tuple[int, float]] = ()
        self._checks_left = _CHECKS
        self._parameters = np.zeros(0, np.float32)
        self._version = -1
        self._base: dict[str, np.ndarray] = {}
        self._own: dict[str, Tensor] = {}
        self._thin: dict[str, _Thin] = {}

    def publish(self, version: int, parameters: np.ndarray) -> None:
        """Write θ `[P]` into the module, once for each version."""
        self._parameters = parameters
        if version == self._version:
            return
        self._searched.with_parameters(parameters)
        places = {name: self._places[name] for name in self._vectors}
        self._base = {n: parameters[p.start : p.start + p.size].copy() for n, p in places.items()}
        self._version = version

    def perturbed(self, members: Sequence[Member | tuple[int, float]]) -> "ModuleMembers":
        """Take the members of the next calls, of the published θ; return this object."""
        self._searched.restore_buffers()
        self._members = members
        own = {n: np.empty((len(members), b.size), np.float32) for n, b in self._base.items()}
        left: dict[str, list[np.ndarray]] = {name: [] for name in self._matrices}
        right: dict[str, list[np.ndarray]] = {name: [] for name in self._matrices}
        # A member after the other, because noise keeps the numbers of its latest key.
        for row, (key, scale) in enumerate(members):
            for name, factors in zip(self._matrices, self._noise.of(key), strict=True):
                left[name].append(factors.left * np.float32(scale))
                right[name].append(factors.right)
            for name, base in self._base.items():
                start, piece = self._places[name].start, own[name][row]
                epsilon = self._noise.read(key, start, start + piece.size, piece)
                np.multiply(epsilon, np.float32(scale), out=piece)
                np.add(piece, base, out=piece)
        self._thin = {n: _Thin(self._stacked(left[n]), self._stacked(right[n])) for n in left}
        shapes = self._searched.shapes
        self._own = {
            name: torch.from_numpy(rows).to(self._dtype).view(len(members), *shapes[name])
            for name, rows in own.items()
        }
        return self

    def _stacked(self, factors: list[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.stack(factors)).to(self._dtype).mT

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Return the outputs `[K, …]` of inputs `[K, …]`; what is no tensor goes to all members."""
        count = len(self._members)
        for value in (*inputs, *named.values()):
            if isinstance(value, Tensor) and value.shape[:1] != (count,):
                raise ObjectiveProblem(
                    f"a module of {count} members takes inputs [{count}, …], one row "
                    f"for each member, and got a tensor of shape {list(value.shape)}"
                )
        if self._checks_left:
            self._checks_left -= 1
            if self._check(inputs, named):
                self._checks_left = 0
        return self._together(inputs, named)

    def _together(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> Any:
        names, values = list(named), [*inputs, *named.values()]
        dims = tuple(0 if isinstance(value, Tensor) else None for value in values)

        def one(own: dict[str, Tensor], thin: dict[str, _Thin], *given: Any) -> Any:
            by_name = dict(zip(names, given[len(inputs) :], strict=True))
            with _Substituted(self._searched.parameters, own, thin):
                return self._searched.module(*given[: len(inputs)], **by_name)

        # Attention's other kernels have no rule for members and would run once for each.
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
            return torch.func.vmap(one, in_dims=(0, 0, *dims))(self._own, self._thin, *values)

    def _check(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> bool:
        """Compare members of the first row's inputs with the module of each one's own matrices.

        A module may reach its parameters where no function of torch is given them: by a compiled
        function, or by a view that was made in `__init__`. Those would not be perturbed. Return
        whether outputs said so: whole numbers may be those of the unperturbed module.
        """
        members = self._members
        size = float(np.sqrt(np.square(self._parameters, dtype=np.float64).mean()))
        scale = max(_LEAST_SCALE, _SHARE_OF_WEIGHTS * size)
        tried = [Member(key, sign * scale) for key in range(2) for sign in (1, -1)]

        def repeated(value: Any) -> Any:
            return (
                value[:1].repeat(len(tried), *[1] * (value.ndim - 1))
                if torch.is_tensor(value)
                else value
            )

        def first(value: Any) -> Any:
            return value[0].clone() if torch.is_tensor(value) else value

        def alone(member: Member) -> list[Tensor]:
            pieces = perturbed_pieces(self._parameters, self._noise.read, *member)
            module = self._searched.with_pieces(pieces)
            with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
                return _numbers(module(*map(first, inputs), **{n: first(named[n]) for n in named}))

        with seeding.kept_globals():
            self.perturbed(tried)
            rows = [repeated(v) for v in inputs]
            together = _numbers(self._together(rows, {n: repeated(named[n]) for n in named}))
            middle = alone(Member(0, 0.0))
            found = [
                _agree([part[row] for part in together], alone(member), middle, self._dtype)
                for row, member in enumerate(tried)
            ]
            self._searched.with_parameters(self._parameters)
            self.perturbed(members)
        if False in found and True not in found:
            raise ObjectiveProblem(
                "the module uses parameters in a way that members of one call cannot share (a "
                "compiled function, or a view made in __init__): leave out --members-per-call"
            )
        return True in found


def _numbers(outputs: Any) -> list[Tensor]:
    """Return the tensors among a module's outputs, whole numbers in double precision."""
    tensors = [value for value in tree_leaves(outputs) if torch.is_tensor(value)]
    return [t.clone() if t.is_floating_point() else t.double() for t in tensors]


def _agree(
    ours: list[Tensor], theirs: list[Tensor], middle: list[Tensor], dtype: Any
) -> bool | None:
    """Whether outputs differ by less than rounding may change of what the perturbation did.

    None: outputs that are not finite, or that the perturbation left as they were, say nothing.
    """
    error = sum(_distance(a, b) for a, b in zip(ours, theirs, strict=True))
    change = sum(_distance(b, c) for b, c in zip(theirs, middle, strict=True))
    if not np.isfinite(error + change) or error == change == 0.0:
        return None
    total = sum(float(b.double().square().sum()) for b in theirs)
    rounding = torch.finfo(dtype).eps ** 2 * total
    return error <= _TOLERANCES[dtype] ** 2 * change + _ROUNDINGS**2 * rounding


def _distance(one: Tensor, other: Tensor) -> float:
    return float((one.double() - other.double()).square().sum())


class _Substituted(TorchFunctionMode):
    """Every function of torch that is given a searched parameter gets the member's in its place.

    So it does not matter how a module reaches its parameters. `linear` and `embedding` take the
    matrix of θ and the factors; every other function gets a member's whole matrix.
    """

    def __init__(
        self, parameters: dict[str, Tensor], own: dict[str, Tensor], thin: dict[str, _Thin]
    ):
        super().__init__()
        self._parameters, self._own, self._thin = parameters, dict(own), thin
        self._names = {id(parameter): name for name, parameter in parameters.items()}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Call `func` with the member's parameters."""
        named: dict[str, Any] = kwargs or {}
        if func in _METADATA:
            return func(*args, **named)
        thin = _THIN.get(func)
        weight = named.get("weight", args[1] if len(args) > 1 else None)
        factors = self._thin.get(self._names.get(id(weight), ""))
        if thin is None or factors is None or named.get("max_norm") is not None:
            return func(*tree_map(self._member, args), **tree_map(self._member, named))

        def but_weight(value: Any) -> Any:
            return value if value is weight else self._member(value)

        return thin(factors, *tree_map(but_weight, args), **tree_map(but_weight, named))

    def _member(self, value: Any) -> Any:
        name = self._names.get(id(value))
        if name is None:
            return value
        if name not in self._own:
            left, right = self._thin[name]
            self._own[name] = value + (left @ right.mT).view(value.shape)
        return self._own[name]


def _linear(thin: _Thin, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """X Wᵀ + (x B) Aᵀ + b."""
    change = functional.linear(input @ thin.right, thin.left, bias)
    return functional.linear(input, weight) + change


def _embedding(thin: _Thin, input: Tensor, weight: Tensor, *settings: Any, **named: Any) -> Tensor:
    """Rows `input` of W + A Bᵀ; the other settings are about gradients."""
    change = functional.embedding(input, thin.left) @ thin.right.mT
    return functional.embedding(input, weight) + change


_THIN: dict[Any, Callable[..., Tensor]] = {
    functional.linear: _linear,
    functional.embedding: _embedding,
}
_METADATA: set[Any] = {
    *(getattr(Tensor, name).__get__ for name in ("shape", "dtype", "device", "ndim", "layout")),
    *(getattr(Tensor, name).__get__ for name in ("requires_grad", "is_nested", "is_sparse")),
    *(Tensor.size, Tensor.dim, Tensor.numel, Tensor.stride, Tensor.is_contiguous),
    *(Tensor.is_floating_point, torch.is_floating_point),
}
"""Functions whose result is the same for every member's parameters."""
