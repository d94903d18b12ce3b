"""Devices that learners compute on: their names, what is there, and arithmetic that repeats itself.

`cpu` is the path of every run so far. Any other name takes the device path: networks, gradients and
optimisers are on the device, everything else stays with the host.
"""

import os
import warnings
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

HOST = "cpu"
COMPARED = ("NVIDIA H100 80GB HBM3, CUDA 13.0",)
"""GPU models, each with its CUDA, on which trainings have had equal bits
(benchmarks/results/device_bits.csv)."""
_FILLS = "fill_uninitialized_memory"
_WORKSPACE = ":4096:8"
"""Size of cuBLAS's workspace, by which it chooses algorithms: the same whatever the caller set."""


def device_of(name: str) -> torch.device | None:
    """Return the device, set to deterministic arithmetic; None for the host.

    Raises `ValueError` with what to do where it is not there.
    """
    if name == HOST:
        return None
    device = torch.device(name)
    if device.type == "cuda":
        refuse_absent(name)
        _repeat_arithmetic()
    return device


def is_device(name: str) -> bool:
    """Return whether torch has such a kind of device; it need not be there."""
    try:
        torch.device(name)
    except RuntimeError:
        return False
    return True


def refuse_absent(name: str) -> None:
    """Raise `ValueError` if this build of torch, or this machine, has no such CUDA device."""
    index = torch.device(name).index or 0
    if not torch.backends.cuda.is_built():
        raise ValueError(
            f"--device {name}: torch {torch.__version__} is a build without CUDA: install the "
            "other build (make TORCH=cuda, docs/install.md), or leave --device out"
        )
    count = device_count()
    if not count:
        raise ValueError(
            f"--device {name}: torch finds no CUDA device here: look at nvidia-smi and at "
            "CUDA_VISIBLE_DEVICES, or leave --device out"
        )
    if index >= count:
        there = "cuda:0" if count == 1 else f"cuda:0 to cuda:{count - 1}"
        raise ValueError(f"--device {name}: torch finds {there} here: give one of these")


def device_count() -> int:
    """Return the number of CUDA devices that torch finds; 0 in a build without CUDA."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a driver that is missing or too old is said by the caller
        return torch.cuda.device_count() if torch.cuda.is_available() else 0


def described(name: str) -> str:
    """Return model, CUDA and cuDNN of a device that is there, which decide a run's bits."""
    device = torch.device(name)
    if device.type != "cuda":
        return name
    model = torch.cuda.get_device_name(device)
    return f"{model}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}"


def described_here(name: Any) -> str:
    """Return the answer of `described`, or `none` for no name or a device that is not there."""
    if not isinstance(name, str):  # an edited config's number, which torch takes for an index
        return "none"
    try:
        if torch.device(name).type == "cuda":
            refuse_absent(name)
    except (ValueError, RuntimeError):
        return "none"
    return described(name)


def not_compared(name: str) -> str:
    """Return why bits are not promised on a device; empty where they have been compared."""
    build = described(name).partition(", cuDNN")[0]
    if build in COMPARED:
        return ""
    return (
        f"computed on {build}: bits were compared on {' and '.join(COMPARED)} alone; "
        "make test-gpu compares them on another"
    )


def host_array(tensor: Tensor) -> np.ndarray:
    """Return a tensor's values: in place where the host has them, else a copy."""
    return tensor.detach().cpu().numpy()


class Arithmetic(NamedTuple):
    """Settings of this process, or thread, that choose torch's kernels and what they compute."""

    deterministic: bool = False
    warns_only: bool = False
    fills_memory: bool = True
    benchmark: bool = False
    deterministic_convolutions: bool = False
    convolutions: str = "tf32"
    recurrent: str = "tf32"
    products: str = "none"
    """Precisions of fp32 on a device: tf32, ieee, or none, which is torch's own."""
    dtype: torch.dtype = torch.float32
    """Type of new tensors of floats."""
    host: tuple[str, ...] = ("none", "none", "none")
    """Precisions of fp32 on the host, of products, convolutions and recurrent layers: bf16 and tf32
    change bits where the processor has such instructions."""
    gradients: bool = True
    flushes: bool = False
    """Whether numbers below 10⁻³⁸ are 0, in NumPy too."""
    device: str = HOST
    """Where new tensors are."""

    @staticmethod
    def now() -> "Arithmetic":
        """Return the settings as they are; the defaults are those of a fresh torch."""
        return Arithmetic(
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
            getattr(torch.utils.deterministic, _FILLS),
            torch.backends.cudnn.benchmark,
            torch.backends.cudnn.deterministic,
            *(place.fp32_precision for place in _places()),
            dtype=torch.get_default_dtype(),
            host=tuple(place.fp32_precision for place in _host_places()),
            gradients=torch.is_grad_enabled(),
            flushes=_flushes_denormals(),
            device=str(torch.get_default_device()),
        )

    def set(self) -> None:
        """Make these the settings of this process."""
        # use_deterministic_algorithms sets the same, and imports torch's compiler: two seconds.
        torch.set_deterministic_debug_mode(self.deterministic * (1 if self.warns_only else 2))
        setattr(torch.utils.deterministic, _FILLS, self.fills_memory)
        torch.set_default_dtype(self.dtype)
        torch.backends.cudnn.benchmark = self.benchmark
        torch.backends.cudnn.deterministic = self.deterministic_convolutions
        for place, precision in zip(_host_places(), self.host, strict=False):
            _set_on_the_host(place, precision)
        # torch refuses to tell its older switches once these have been set: only what differs is.
        wanted = (self.convolutions, self.recurrent, self.products)
        for place, precision in zip(_places(), wanted, strict=True):
            if place.fp32_precision != precision:
                place.fp32_precision = precision
        torch.set_grad_enabled(self.gradients)
        if _flushes_denormals() != self.flushes:
            torch.set_flush_denormal(self.flushes)
        if str(torch.get_default_device()) != self.device:  # a set one costs every call of torch's
            torch.set_default_device(None if self.device == HOST else self.device)


_TINY, _ONE = np.float32(1e-40), np.float32(1.0)


def _flushes_denormals() -> bool:
    return bool(_TINY * _ONE == 0.0)


def _places() -> tuple[Any, Any, Any]:
    """Return torch's settings of precision: of convolutions, recurrent layers and products."""
    cudnn: Any = torch.backends.cudnn
    products: Any = torch.backends.cuda.matmul
    if hasattr(cudnn, "conv"):
        return cudnn.conv, cudnn.rnn, products
    return _Switch(cudnn), _Switch(cudnn), _Switch(products)


def _host_places() -> tuple[Any, ...]:
    """Return the host's settings of precision: of products, convolutions and recurrent layers."""
    host: Any = torch.backends.mkldnn
    if hasattr(host, "matmul"):
        return host.matmul, host.conv, host.rnn
    return (_HostSwitch(),)


def _set_on_the_host(place: Any, precision: str) -> None:
    """Set a precision; `none` takes that of all kinds of layers, which need not be fp32."""
    full = ("none", "ieee")
    if place.fp32_precision in full and precision in full:
        return
    if place.fp32_precision != precision:
        place.fp32_precision = "ieee" if precision == "none" else precision


class _HostSwitch:
    """The precision of products of a torch before 2.9."""

    _NAMES: ClassVar[dict[str, str]] = {"none": "highest", "tf32": "high", "bf16": "medium"}

    @property
    def fp32_precision(self) -> str:
        """Return none, tf32 or bf16."""
        now = torch.get_float32_matmul_precision()
        return next(name for name, older in self._NAMES.items() if older == now)

    @fp32_precision.setter
    def fp32_precision(self, precision: str) -> None:
        torch.set_float32_matmul_precision(self._NAMES.get(precision, "highest"))


class _Switch:
    """A precision of a torch before 2.9, which has `allow_tf32` alone."""

    def __init__(self, owner: Any):
        self._owner = owner

    @property
    def fp32_precision(self) -> str:
        """Return tf32 or ieee."""
        return "tf32" if self._owner.allow_tf32 else "ieee"

    @fp32_precision.setter
    def fp32_precision(self, precision: str) -> None:
        self._owner.allow_tf32 = precision == "tf32"


REPEATABLE = Arithmetic(
    deterministic=True,
    fills_memory=False,  # all memory is written before it is read
    deterministic_convolutions=True,
    convolutions="ieee",
    recurrent="ieee",
    products="ieee",
)


def _repeat_arithmetic() -> None:
    """Choose deterministic kernels in full float32, for this process.

    cuBLAS reads its workspace from the environment when it begins, so this comes before any kernel.
    """
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = _WORKSPACE
    REPEATABLE.set()
