"""`drumline export RUN`."""

from dataclasses import dataclass
from pathlib import Path

from drumline.commands.command_line import CommandLine, WrongUse, refuse_unwritable


@dataclass(frozen=True)
class ExportFlags:
    """Flags of `drumline export`."""

    onnx: Path | None = None
    """Write the policy as ONNX to this file (pip install 'drumline[export]')."""
    torch_export: Path | None = None
    """Write the policy for torch.export.load to this file, whose name ends in .pt2."""
    policy: str = "best"
    """best, last, or the path of a policy file."""
    quiet: bool = False
    """Print nothing but errors."""
    json: bool = False
    """Print one JSON object per file and line."""
    trust_code: bool = False
    """Import the code that the run folder names."""


def command(line: CommandLine) -> int:
    """Write a saved policy for another runtime, and compare its actions with the policy's."""
    flags = line.flags("RUN", {"export": ExportFlags()})["export"]
    if flags.onnx is None and flags.torch_export is None:
        raise WrongUse("give --onnx FILE or --torch-export FILE, as in: export last --onnx a.onnx")
    if flags.torch_export is not None and flags.torch_export.suffix != ".pt2":
        raise WrongUse(f"--torch-export {flags.torch_export}: name a file that ends in .pt2")
    for flag, out in (("--onnx", flags.onnx), ("--torch-export", flags.torch_export)):
        if out is not None:
            refuse_unwritable(out, flag)
    from drumline.commands.evaluate import stored_policy_of
    from drumline.commands.trusted_code import trust_of
    from drumline.display.plain import json_line
    from drumline.runs.folder import RunFolder
    from drumline.runs.safe_text import visible
    from drumline.runs.typed_paths import typed

    folder = RunFolder.open(line.name())
    trust = trust_of(line, trust_code=flags.trust_code)
    stored = stored_policy_of(folder, flags.policy)
    from drumline.api.loaded_policy import LoadedPolicy

    policy = LoadedPolicy(stored, trust)
    from drumline.commands.exported_files import export_onnx, export_torch

    for out, export in ((flags.onnx, export_onnx), (flags.torch_export, export_torch)):
        if out is not None:
            difference = export(policy, typed(out))
            if flags.json:
                named = {"file": str(out), "policy": flags.policy}
                print(json_line({**named, "largest_difference": difference}))
            elif not flags.quiet:
                print(visible(f"{out}: differs from the policy by {difference:.1e} at most"))
    return 0
