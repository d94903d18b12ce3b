"""`drumline train METHOD ENV`, and `drumline train METHOD --objective module:function`."""

import dataclasses
import json
import textwrap
from typing import Any

from drumline.commands.command_line import CommandLine, WrongUse


@dataclasses.dataclass(frozen=True)
class Output:
    """Flags about the run folder and the output."""

    preset: str = ""
    """Begin with this preset of the environment, such as paper; left out: with the method's own."""
    out: str | None = None
    """The run folder, empty or new; by default a dated name under runs/."""
    quiet: bool = False
    """Print nothing but errors."""
    json: bool = False
    """Print one JSON object per line and nothing else on stdout."""
    print_config: bool = False
    """Print the resolved config as JSON and stop."""


def command(line: CommandLine) -> int:
    """Train a policy; the last line is the next command to try."""
    names = line.names
    asks = line.asks_for_help or line.asks_for_all_help
    if asks and not names:
        print(_methods_page(), end="")
        return 0
    objective = line.value("--objective")
    if len(names) != (1 if objective else 2) and not (asks and len(names) == 1):
        got = " ".join(names) or "nothing"
        if objective:
            raise WrongUse(
                f"give METHOD alone before --objective, which stands in place of ENV, got {got}, "
                "as in: drumline train es --objective module:function --dimensions 10"
            )
        raise WrongUse(
            f"give METHOD and ENV before the flags, got {got}, as in: drumline train es CartPole-v1"
        )
    from drumline.commands.flag_page import flag_page
    from drumline.commands.foreign_code import importable_cwd
    from drumline.recipes.foreign_calls import CONFIG, as_sentence
    from drumline.recipes.methods import find_method

    importable_cwd()
    name, env = [*names, "ENV"][:2]
    method = find_method(name)
    variant = line.value("--preset")
    if objective and variant:
        raise WrongUse(f"--preset {variant} is of an environment, and --objective has none")
    config = method.made_for(objective) if objective else method.made(env, variant)
    parts = {"config": config, "layout": method.layout(), "output": Output()}
    if line.asks_for_help and not method.outside:
        shown = [*names, "--objective", objective] if objective else names
        print(flag_page(" ".join(shown), parts), end="")
        return 0
    try:
        chosen = line.flags(" ".join(names), parts, hidden=_without_effect(config, env))
    except (ValueError, WrongUse):
        raise
    except Exception as error:
        if not method.outside:
            raise
        raise as_sentence(name, CONFIG, error) from error
    config, output = chosen["config"], chosen["output"]
    if config.env != env and not objective:
        raise WrongUse(f"--env {config.env} contradicts {env}, whose preset this is: give one ENV")
    if output.print_config:
        print(json.dumps(dataclasses.asdict(method.resolved(config)), indent=2))
        return 0
    from drumline.commands.closing import display_for, say_finished, say_finished_in_json
    from drumline.commands.run import train

    display = display_for(quiet=output.quiet, json=output.json)
    run = train(config, out=output.out, layout=chosen["layout"], display=display)
    if output.json:
        say_finished_in_json(run.folder)
    elif not output.quiet:
        say_finished(run.folder)
    return 0


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
