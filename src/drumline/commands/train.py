"""`drumline train METHOD ENV`."""

import dataclasses
import json
import textwrap

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
    if line.asks_for_help and not names:
        print(_methods_page(), end="")
        return 0
    if len(names) != 2 and not (line.asks_for_help and len(names) == 1):
        got = " ".join(names) or "nothing"
        raise WrongUse(
            f"give METHOD and ENV before the flags, got {got}, as in: drumline train es CartPole-v1"
        )
    from drumline.commands.foreign_code import importable_cwd
    from drumline.recipes.foreign_calls import CONFIG, as_sentence
    from drumline.recipes.methods import find_method

    importable_cwd()
    name, env = [*names, "ENV"][:2]
    method = find_method(name)
    config = method.made(env, line.value("--preset"))
    parts = {"config": config, "layout": method.layout(), "output": Output()}
    try:
        chosen = line.flags(" ".join(names), parts)
    except (ValueError, WrongUse):
        raise
    except Exception as error:
        if not method.outside:
            raise
        raise as_sentence(name, CONFIG, error) from error
    config, output = chosen["config"], chosen["output"]
    if config.env != env:
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


def _methods_page() -> str:
    from drumline.recipes.methods import METHODS
    from drumline.recipes.outside_methods import registered

    lines = ["usage: drumline train METHOD ENV [flags]", ""]
    for name, method in METHODS.items():
        about = (method.config.__doc__ or "").partition(" Every field")[0]
        lines += textwrap.wrap(f"  {name:<5} {about}", 80, subsequent_indent=" " * 8)
    for name, points in registered().items():
        lines.append(f"  {name:<5} of an installed package: {', '.join(p.value for p in points)}")
    lines += ["", "Your own method is METHOD package.module:Class (docs/extending.md)."]
    lines += ["", "Flags differ with the method, their defaults with the environment, as in:"]
    lines += [f"  drumline train {name} CartPole-v1 --help" for name in METHODS]
    return "\n".join(lines) + "\n"
