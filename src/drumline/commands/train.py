"""`drumline train METHOD ENV`, and `drumline train METHOD --objective module:function`."""

import dataclasses
import json
import shlex
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drumline.commands.command_line import CommandLine, WrongUse

if TYPE_CHECKING:
    from drumline.recipes.method import Method


@dataclasses.dataclass(frozen=True)
class Output:
    """Flags about the run folder and the output."""

    preset: str = ""
    """Begin with this preset of the environment, such as paper; left out: with the method's own."""
    out: str | None = None
    """The run folder, empty or new; by default a dated name under runs/."""
    store: str = ""
    """Copy the run folder to an object store while it trains: s3://bucket/prefix, or another URL
    that fsspec knows; pip install 'drumline[store]'."""
    quiet: bool = False
    """Print nothing but errors."""
    json: bool = False
    """Print one JSON object per line and nothing else on stdout."""
    seeds: str = ""
    """Train one run after the other with these seeds, as in 0-4 or 0,3,7; with --out FOLDER in
    FOLDER/s0 and so on."""
    tags: tuple[str, ...] = ()
    """Words by which `drumline list --tag` finds the run."""
    config: str = ""
    """Begin with the settings of this file, as --print-config prints them, or of a run's
    config.json, in place of a preset; ENV may then be left out."""
    trust_code: bool = False
    """Import the code that the file of --config names."""
    print_config: bool = False
    """Print the resolved config as JSON and stop."""


def command(line: CommandLine) -> int:
    """Train a policy; the last line is the next command to try."""
    names = line.names
    asks = line.asks_for_help or line.asks_for_all_help
    if asks and not names:
        print(_methods_page(), end="")
        return 0
    _refuse_wrong_words(line, asks=asks)
    from drumline.recipes.first_policies import start_of
    from drumline.runs.start_policy import recorded

    begin = _beginning(line)
    if line.asks_for_help and not begin.method.outside:
        from drumline.commands.flag_page import flag_page

        objective = line.value("--objective")
        shown = [*names, "--objective", objective] if objective else names
        print(flag_page(" ".join(shown), begin.parts), end="")
        return 0
    chosen = _chosen(line, begin)
    config, output = chosen["config"], chosen["output"]
    seeds = _seeds_of(line, config, output)
    if output.print_config:
        _print_config(begin.method, dataclasses.replace(config, seed=seeds[0]))
        return 0
    if start := start_of(config):  # once: `last` is another run after the first seed
        config = dataclasses.replace(config, start_from=recorded(start))
    if not (output.quiet or output.json):
        _warn(begin, config, from_file=bool(output.config))
    folders = [
        _train_once(dataclasses.replace(config, seed=seed), chosen["layout"], output, seed)
        for seed in seeds
    ]
    if len(folders) > 1 and not (output.quiet or output.json):
        from drumline.runs.safe_text import visible

        print(visible(shlex.join(["drumline", "compare", *folders])))
    return 0


@dataclasses.dataclass(frozen=True)
class _Beginning:
    """A method with the settings that the flags change."""

    method: "Method"
    env: str
    config: Any

    @property
    def parts(self) -> dict[str, Any]:
        """Return what has flags, with its defaults."""
        return {"config": self.config, "layout": self.method.layout(), "output": Output()}


def _beginning(line: CommandLine) -> _Beginning:
    """Return what a run begins with: a preset, a file's settings, or those for an objective."""
    from drumline.api.foreign_code import importable_cwd
    from drumline.recipes.methods import METHODS, find_method

    names, objective, file = line.names, line.value("--objective"), line.value("--config")
    fields: dict[str, Any] = {}
    if file:
        from drumline.commands.config_file import read_config_file
        from drumline.commands.trusted_code import trust_of

        fields = read_config_file(Path(file), names[0])
        trust = trust_of(line, trust_code="--trust-code" in line.words)
        trust.config_file(file, fields, [*names, objective])
    importable_cwd()
    name, env = [*names, *([] if file else ["ENV"]), ""][:2]
    if env in METHODS and name not in METHODS:
        raise WrongUse(f"METHOD comes before ENV: drumline train {env} {name}")
    method = find_method(name)
    variant = line.value("--preset")
    if variant and (objective or file):
        raise WrongUse(
            f"--preset {variant} is of an environment, and --objective has none"
            if objective
            else f"--preset {variant} and --config {file} both say what to begin with: give one"
        )
    if file:
        config = _of_file(method, env, objective, file, fields, _beside(line, method))
        return _Beginning(method, config.env, config)
    if objective:
        return _Beginning(method, env, method.made_for(objective))
    preset = method.preset(env, variant, _beside(line, method))
    return _Beginning(method, env, method.made(env, None, **preset))


def _chosen(line: CommandLine, begin: _Beginning) -> Mapping[str, Any]:
    """Return config, layout and output as the flags make them."""
    from drumline.recipes.foreign_calls import CONFIG, as_sentence

    name, env, parts = line.names[0], begin.env, begin.parts
    if begin.method.outside:
        _refuse_taken_names(name, begin.config, parts["layout"], parts["output"])
    try:
        hidden = _without_effect(begin.config, env)
        chosen = line.flags(" ".join(line.names), parts, hidden=hidden)
    except (ValueError, WrongUse):
        raise
    except Exception as error:
        if not begin.method.outside:
            raise
        raise as_sentence(name, CONFIG, error) from error
    typed = chosen["config"].env
    if typed != env and not line.value("--objective"):
        raise WrongUse(f"--env {typed} contradicts {env}, whose preset this is: give one ENV")
    return chosen


def _seeds_of(line: CommandLine, config: Any, output: Output) -> list[int]:
    from drumline.commands.typed_seeds import seeds_of

    if output.seeds and line.value("--seed"):
        raise WrongUse("--seed and --seeds both say the seed: give one of them")
    return seeds_of(output.seeds) if output.seeds else [config.seed]


def _print_config(method: "Method", config: Any) -> None:
    from drumline.api.kept_prints import kept_prints, unsaid

    with kept_prints(unsaid):
        printed = method.resolved(config)
    print(json.dumps(dataclasses.asdict(printed), indent=2))


def _warn(begin: _Beginning, config: Any, *, from_file: bool) -> None:
    """Say that there is no preset, and that bf16 is slow here."""
    from drumline.envs.make import is_gymnasiums
    from drumline.recipes.chosen_environment import engine_of
    from drumline.runs.safe_text import visible

    if config.env and not from_file and (sentence := begin.method.without_preset(begin.env)):
        others = engine_of(config, begin.method.prefers) != "gymnasium"
        if others or ":" in config.env or is_gymnasiums(config.env):  # no word about a typing error
            print(visible(sentence), file=sys.stderr)
    _warn_of_bf16(begin.method.name, config)


def _refuse_taken_names(method: str, config: Any, layout: Any, output: Output) -> None:
    """Refuse a field with the name of another flag, which the parser would only assert."""
    pairs = {
        f"no_{field.name}"
        for part in (config, layout)
        for field in dataclasses.fields(part)
        if isinstance(getattr(part, field.name), bool)
    }
    taken = pairs.union(
        field.name for part in (layout, output) for field in dataclasses.fields(part)
    )
    for field in dataclasses.fields(config):
        if field.name in taken:
            raise WrongUse(
                f"{method}: field {field.name} has the name of a flag of drumline train: give it "
                "another, or make it a ClassVar"
            )


def _beside(line: CommandLine, method: "Method") -> dict[str, str]:
    """Return the typed values of the fields that decide which others have an effect."""
    typed = {name: line.value(f"--{name.replace('_', '-')}") for name in method.deciding}
    return {name: value for name, value in typed.items() if value}


def _warn_of_bf16(method: str, config: Any) -> None:
    if getattr(config, "precision", "fp32") != "bf16":
        return
    from drumline.commands.bf16_warning import bf16_warning
    from drumline.runs.safe_text import visible

    for sentence in bf16_warning(method, config):
        print(visible(sentence), file=sys.stderr, flush=True)


def _refuse_wrong_words(line: CommandLine, *, asks: bool) -> None:
    """Raise WrongUse for flags without a value, and for names that the flags leave no place for."""
    line.refuse_empty(
        *("--seeds", "--config", "--objective", "--preset", "--store", "--start-from")
    )
    if sum(word.partition("=")[0] == "--tags" for word in line.words) > 1:
        raise WrongUse("give all words behind one --tags")
    names, objective, file = line.names, line.value("--objective"), line.value("--config")
    wanted = (1, 2) if file else (1,) if objective else (2,)
    if len(names) in wanted or (asks and len(names) == 1):
        return
    got = " ".join(names) or "nothing"
    if objective:
        raise WrongUse(
            f"give METHOD alone before --objective, which stands in place of ENV, got {got}, "
            "as in: drumline train es --objective module:function --dimensions 10"
        )
    if file:
        raise WrongUse(
            f"give METHOD before the flags, got {got}, as in: drumline train es --config {file}"
        )
    raise WrongUse(
        f"give METHOD and ENV before the flags, got {got}, as in: drumline train es CartPole-v1"
    )


def _of_file(
    method: "Method",
    env: str,
    objective: str,
    file: str,
    fields: Mapping[str, Any],
    typed: Mapping[str, str],
) -> Any:
    """Return the config of a file; what it leaves out is that of the environment's preset.

    The preset is that beside the file's settings and the `typed` ones, which count more.
    """
    from drumline.commands.config_file import refuse_foreign_fields, typed_fields
    from drumline.recipes.methods import METHODS

    refuse_foreign_fields(Path(file), dict(fields), method, list(METHODS.values()))
    values = typed_fields(method.with_effect(fields, typed))
    own, searched = values.pop("env", ""), values.pop("objective", "")
    if env and own and env != own:
        raise WrongUse(f"--config {file} is for {own}, and ENV is {env}: leave ENV out")
    if objective and searched and objective != searched:
        raise WrongUse(f"--config {file} is for {searched}: leave --objective {objective} out")
    if objective or searched:
        if env or own:
            raise WrongUse(
                f"--config {file} and the command line name an environment ({env or own}) and an "
                f"objective ({objective or searched}): give one of both"
            )
        return method.made_for(objective or searched, **values)
    if not (env or own):
        raise WrongUse(f"--config {file} names no environment: give ENV behind {method.name}")
    preset = method.preset(env or own, beside={**values, **typed})
    kept = {name: value for name, value in values.items() if name not in typed}
    return method.made(env or own, None, **{**preset, **kept})


def _train_once(config: Any, layout: Any, output: Output, seed: int) -> str:
    from drumline.api.run import train
    from drumline.commands.closing import display_for, say_finished, say_finished_in_json

    out = Path(output.out, f"s{seed}") if output.out and output.seeds else output.out
    display = display_for(quiet=output.quiet, json=output.json)
    store = f"{output.store.rstrip('/')}/s{seed}" if output.store and output.seeds else output.store
    run = train(config, out=out, layout=layout, display=display, tags=output.tags, store=store)
    if output.json:
        say_finished_in_json(run.folder)
    elif not output.quiet:
        say_finished(run.folder)
    return run.folder.shown


def _without_effect(config: Any, env: str) -> set[str]:
    """Return the fields that the page of all flags leaves out for this environment."""
    football = env == "ENV" or env.startswith("gfootball/")
    return set() if football or not hasattr(config, "reward") else {"reward"}


def _methods_page() -> str:
    from drumline.recipes.methods import METHODS
    from drumline.recipes.outside_methods import registered

    lines = ["usage: drumline train METHOD ENV [flags]", "", "METHOD, and when to choose it:"]
    for name in METHODS:
        lines += textwrap.wrap(f"  {name:<14}{WHEN[name]}", 80, subsequent_indent=" " * 16)
    for name, points in registered().items():
        lines.append(f"  {name:<14}of an installed package: {', '.join(p.value for p in points)}")
    lines += ["", "es, ars, cem and aes search an objective of your own in place of ENV:"]
    lines += ["  drumline train es --objective module:function --dimensions 10"]
    lines += ["", "Your own method is METHOD package.module:Class (docs/extending.md)."]
    lines += ["ENV is a Gymnasium or EnvPool id, or your package.module:factory (check-env)."]
    lines += ["", "The flags that most people use, and every flag, of a method and environment:"]
    lines += ["  drumline train hts CartPole-v1 --help", "  drumline train es Hopper-v5 --help-all"]
    return "\n".join(lines) + "\n"


WHEN = {
    "es": "many cores or machines, and env steps are cheap: OpenAI-ES",
    "ars": "a linear policy may do: the fewest parameters",
    "aes": "env steps are expensive and you have several cores: evolution with TD3, which never "
    "waits at a barrier",
    "one-plus-one": "aes with the (1+1)-ES, to compare with it",
    "acem-rl": "aes with ranks over an archive, to compare with ACEM-RL",
    "cem": "the reward has no useful gradient, and the policy is small",
    "cem-rl": "as aes, in generations: CEM with TD3, to compare with CEM-RL",
    "p-cem-rl": "as cem-rl, with jobs of its generation in parallel",
    "erl": "to compare with ERL: a genetic algorithm that a DDPG actor joins",
    "td3": "env steps are expensive and you have one core: a replay, one environment",
    "hts": "simulation is quick and you have cores: PPO or A2C that roll out and learn at once; "
    "also images and discrete actions",
    "a2c": "to compare with A2C in lock-step",
    "ppo": "to compare with PPO in lock-step",
    "impala": "to compare with IMPALA: free running, no promise of equal bits",
}
"""Method → when to choose it, in a line."""
