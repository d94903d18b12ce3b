"""`drumline rebuild RUN`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from drumline.commands.command_line import CommandLine, WrongUse, refuse_unwritable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from drumline.api.foreign_code import CodeTrust
    from drumline.runs.folder import RunFolder
    from drumline.training.generational_run import GenerationalRecipe

_ENDING = ".safetensors"


@dataclass(frozen=True)
class RebuildFlags:
    """Flags of `drumline rebuild`."""

    generation: int = -1
    """Generation after whose update the parameters are made; 0: the initial ones. By default the
    last one of the log."""
    out: Path | None = None
    """Policy file to write, whose name ends in .safetensors; by default
    policy-GENERATION.safetensors."""
    trust_code: bool = False
    """Import the code that the run folder names."""


def command(line: CommandLine) -> int:
    """Make the parameters of a generation again, from what the search was told."""
    flags = line.flags("RUN", {"rebuilding": RebuildFlags()})["rebuilding"]
    if flags.generation < -1:
        raise WrongUse(f"--generation must be 0 or more, got {flags.generation}")
    asked = None if flags.generation < 0 else flags.generation
    out = flags.out or _default(asked)
    if not out.name.endswith(_ENDING):
        raise WrongUse(f"--out {out}: name a file that ends in {_ENDING}")
    refuse_unwritable(out)
    from drumline.commands.trusted_code import trust_of
    from drumline.runs.atomic_files import replace_file
    from drumline.runs.folder import RunFolder
    from drumline.runs.next_commands import by_path
    from drumline.runs.typed_paths import typed

    folder, trust = RunFolder.open(line.name()), trust_of(line, trust_code=flags.trust_code)
    rebuilt = rebuild(folder, asked, trust)
    out = flags.out or _default(rebuilt.generation)
    replace_file(typed(out), rebuilt.policy_file)
    compared = "equal to its fingerprint" if rebuilt.compared else "without a fingerprint"
    print(f"generation {rebuilt.generation}, {compared}: {out}")
    print(f"next: {by_path(folder, 'evaluate', '--policy', str(out))}")
    return 0


def _default(generation: int | None) -> Path:
    return Path(f"policy-{'GENERATION' if generation is None else generation}{_ENDING}")


@dataclass(frozen=True)
class Rebuilt:
    """A generation that was made again."""

    generation: int
    published: "dict[str, np.ndarray]"
    """Arrays that the run published after this generation."""
    policy_file: bytes
    compared: bool
    """Whether the run's fingerprint of the generation was there, and is that of the arrays."""


def rebuild(
    folder: "RunFolder", generation: int | None = None, trust: "CodeTrust | None" = None
) -> Rebuilt:
    """Make the parameters after `generation` updates again; None: after the last logged one.

    From the newest kept checkpoint before it, or from the initial parameters, the strategy is told
    the generations of the scalar log: its noise follows from the seed. Without `trust`, code that
    the run folder names is refused.
    """
    from drumline.api.foreign_code import UNTRUSTED
    from drumline.api.stored_search import stored_search
    from drumline.functional.numpy_threads import one_numpy_thread
    from drumline.runs.folder import RunError
    from drumline.runs.policy_files import encoded_policy, policy_description
    from drumline.runs.scalar_log import read_scalars
    from drumline.training.run_request import described
    from drumline.training.told_generations import results_of

    recipe = stored_search(
        folder,
        trust or UNTRUSTED,
        ": only a search whose update follows from returns can be made again without its episodes",
    )
    at = _begin(folder, recipe, generation)
    logged = False
    with one_numpy_thread():
        for told in read_scalars(folder):
            logged = True
            if generation is not None and at == generation:
                break
            if told.generation == at:
                recipe.strategy.tell(results_of(recipe.strategy, told))
                at += 1
    wanted = 1 if generation is None else generation
    if not logged and at < wanted:
        raise RunError(
            f"{folder.shown} has no scalar log: only runs begun with --keep-scalars have one"
        )
    if at < wanted:
        raise RunError(f"the scalar log of {folder.shown} ends at generation {at}")
    published = dict(recipe.strategy.published())
    compared = _compare(folder, at, published)
    arrays = {name: each for name, each in published.items() if name not in recipe.not_policy}
    arrays |= recipe.fixed
    description = policy_description(
        folder.document["method"],
        described(recipe.searched, recipe.policy),
        update=at,
        evaluation_mean=None,
    )
    return Rebuilt(at, published, encoded_policy(arrays, description)[0], compared)


def _begin(folder: "RunFolder", recipe: "GenerationalRecipe", generation: int | None) -> int:
    """Load the newest good checkpoint at or before `generation`; return its generation, else 0."""
    from drumline.runs.checkpoint import DamagedCheckpoint, checkpoint_numbers, read_checkpoint
    from drumline.training.ledger import learned

    for number in reversed(checkpoint_numbers(folder)):
        if generation is not None and number > generation:
            continue
        try:
            recipe.load(learned(read_checkpoint(folder, number)))
        except DamagedCheckpoint:
            continue
        return number
    return 0


def _compare(folder: "RunFolder", generation: int, published: "Mapping[str, np.ndarray]") -> bool:
    """Return whether the run's fingerprint is there; RunError if it is not that of the arrays."""
    from drumline.runs.fingerprints import array_hash, read_chain
    from drumline.runs.folder import RunError

    chain = read_chain(folder.fingerprints_csv)
    row = next((row for row in chain.rows() if row.update == generation), None)
    if row is None:
        return False
    for name, expected in zip(chain.columns, row.hashes, strict=True):
        if name not in published or array_hash(published[name]) != expected:
            raise RunError(
                f"{name} of generation {generation} is not what {folder.shown} had: the run was "
                "made on another kind of machine or with other versions, or a file was changed"
            )
    return True
