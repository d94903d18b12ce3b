"""Policies as files of other runtimes, ONNX and torch.export, compared with the policy."""

import contextlib
import io
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from drumline import seeding
from drumline.api.loaded_policy import LoadedPolicy
from drumline.policies.actor_critic_policy import ActorCriticSpec
from drumline.runs.atomic_files import replace_file
from drumline.runs.folder import RunError

TOLERANCE = 1e-4
"""Largest difference of an output or an action, relative where it is above 1."""

_COMPARED = (1, 5, 16)
"""Sizes of the batches that are compared."""

Outputs = tuple[np.ndarray, np.ndarray]
"""Actions `[N, …]` and raw outputs `[N, O]`."""


def export_onnx(policy: LoadedPolicy, out: Path) -> float:
    """Write an ONNX file; return the largest difference to the policy."""
    try:
        import onnxruntime
        import onnxscript  # noqa: F401 - torch.onnx needs it
    except ImportError as error:
        raise RunError(
            f"--onnx needs {error.name}, which is not installed: pip install 'drumline[export]'"
        ) from error
    import torch

    module, example = _with_outputs(policy)
    aside = out.with_name(f".{out.name}.{os.urandom(16).hex()}.partial")
    try:
        with _refused("--onnx"), _quiet():
            torch.onnx.export(
                module,
                (example,),
                str(aside),
                dynamo=True,
                external_data=False,
                verbose=False,
                input_names=["observations"],
                output_names=["actions", "outputs"],
                dynamic_shapes=({0: torch.export.Dim("batch")},),
            )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            str(aside), options, providers=["CPUExecutionProvider"]
        )

        def called(observations: np.ndarray) -> Outputs:
            actions, outputs = session.run(None, {"observations": observations})
            return np.asarray(actions), np.asarray(outputs)

        with _refused("--onnx"):
            return _put(policy, called, aside, out)
    finally:
        aside.unlink(missing_ok=True)


def export_torch(policy: LoadedPolicy, out: Path) -> float:
    """Write a file of torch.export; return the largest difference to the policy."""
    import torch

    module, example = _with_outputs(policy)
    aside = out.with_name(f".{os.urandom(16).hex()}.partial.{out.name}")  # torch wants its ending
    try:
        with _refused("--torch-export"), _quiet():
            program = torch.export.export(
                module, (example,), dynamic_shapes=({0: torch.export.Dim("batch")},)
            )
            written = io.BytesIO()  # torch's own writer aborts the process on a full disk
            torch.export.save(program, written)
        aside.write_bytes(written.getvalue())
        loaded = torch.export.load(aside).module()

        def called(observations: np.ndarray) -> Outputs:
            actions, outputs = loaded(torch.from_numpy(observations))
            return actions.numpy(), outputs.numpy()

        with _refused("--torch-export"):
            return _put(policy, called, aside, out)
    finally:
        aside.unlink(missing_ok=True)


def _put(
    policy: LoadedPolicy, called: Callable[[np.ndarray], Outputs], aside: Path, out: Path
) -> float:
    difference = _compared(policy, called)
    replace_file(out, aside.read_bytes())
    return difference


def _with_outputs(policy: LoadedPolicy) -> tuple[Any, Any]:
    """Return a module that gives actions and raw outputs, and a batch to trace it with."""
    import torch

    inner = policy.to_torch()

    class WithOutputs(torch.nn.Module):
        """Actions and raw outputs of a policy."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, observations: Any) -> tuple[Any, Any]:
            """Return both."""
            outputs = self.inner.outputs(observations)
            return self.inner.actions(outputs), outputs

    return WithOutputs().eval(), torch.from_numpy(_observations(policy, 3))


def _observations(policy: LoadedPolicy, count: int) -> np.ndarray:
    """Return observations to compare with, float32 or bytes, that the space's dtype can hold."""
    rng = seeding.generator(0, "export", count)
    shape = (count, *policy.observation_shape)
    spec = policy.spec
    if not isinstance(spec, ActorCriticSpec):
        if spec.image:
            return rng.integers(0, 256, shape, dtype=np.uint8)
        return rng.standard_normal(shape).astype(np.float32)
    dtype = np.dtype(spec.network.observation_dtype)
    if dtype == np.uint8:
        return rng.integers(0, 256, shape, dtype=np.uint8)
    if dtype.kind != "f":  # the policy cuts fractions, and the exported module does not
        return rng.integers(0, 2 if dtype.kind == "b" else 10, shape).astype(np.float32)
    return rng.standard_normal(shape).astype(dtype).astype(np.float32)


def _compared(policy: LoadedPolicy, called: Callable[[np.ndarray], Outputs]) -> float:
    """Return the largest difference to the policy; RunError if it is more than rounding."""
    largest = 0.0
    for count in _COMPARED:
        observations = _observations(policy, count)
        actions, outputs = called(observations)
        ours = np.stack([policy.output(row).copy() for row in observations])
        # From the same outputs, so that a tie that rounds otherwise is no difference.
        wanted = np.stack([np.asarray(policy.to_action(row.copy(), None)) for row in outputs])
        for theirs, expected in ((outputs, ours), (actions, wanted)):
            if theirs.shape != expected.shape or theirs.dtype != expected.dtype:
                raise RunError(
                    f"the exported policy gives {theirs.dtype}{list(theirs.shape)} where the "
                    f"policy gives {expected.dtype}{list(expected.shape)}: it was not written"
                )
            if not prod(expected.shape):
                continue
            if not np.array_equal(np.isnan(theirs), np.isnan(expected)):
                raise RunError(
                    "the exported policy gives NaN where the policy does not, or the other way "
                    "round: it was not written"
                )
            scale = np.maximum(1.0, np.abs(expected))
            differences = np.nan_to_num(np.abs(theirs - expected) / scale, posinf=np.inf)
            largest = max(largest, float(differences.max()))
    if not largest <= TOLERANCE:
        raise RunError(
            f"the exported policy differs by {largest:.3g} from the policy, more than {TOLERANCE}: "
            "it was not written"
        )
    return largest


@contextlib.contextmanager
def _refused(flag: str) -> Iterator[None]:
    """Turn any error of an exporter into one sentence: a network of one's own may be anything."""
    try:
        yield
    except (RunError, MemoryError, OSError):
        raise
    except Exception as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), "")
        raise RunError(
            f"{flag} cannot export this policy's network ({type(error).__name__}: {reason:.200}); "
            "policy.to_torch() in Python gives it as a module"
        ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporters' warnings and progress to themselves."""
    levels = {name: logging.getLogger(name).level for name in ("torch", "torch.onnx", "onnxscript")}
    for name in levels:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
