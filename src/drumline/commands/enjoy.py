"""`drumline enjoy RUN`."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from drumline.commands.command_line import CommandLine, WrongUse

if TYPE_CHECKING:
    from drumline.envs.environment import EnvironmentSpec, MadeEnvironment
    from drumline.protocols import Policy


@dataclass(frozen=True)
class EnjoyFlags:
    """Flags of `drumline enjoy`."""

    policy: Literal["best", "last"] = "best"
    """best: policy of the highest evaluation mean; last: policy at the end or the stop."""
    episodes: int = 1
    """Number of episodes."""
    seed: int = 0
    """Root of the episodes' seeds, which are the same as in `evaluate`."""
    max_steps: int = 1000
    """End an episode after this many env steps, or after the run's --evaluate-max-steps."""
    deterministic: bool = False
    """Take the most likely action each time; the default, unless the run was made with
    --evaluate-sample, as Atari's presets are."""
    sample: bool = False
    """Draw actions, as in `evaluate`."""
    window: bool = False
    """Open a window (q closes it); the default where there is a display."""
    video: Path | None = None
    """Write an mp4 or gif; without a display the default is episode.mp4 in the run folder."""
    grid: bool = False
    """Film the --episodes side by side, all from their beginning."""
    trust_code: bool = False
    """Import the code that the run folder names."""


def command(line: CommandLine) -> int:
    """Show episodes of a saved policy."""
    flags = line.flags("RUN", {"show": EnjoyFlags()})["show"]
    _refuse(flags)
    from drumline.display.video import (
        choose_offscreen_backend,
        display_available,
        record_episodes,
        show_episodes,
    )

    film = flags.video is not None or flags.grid
    window = flags.window or (not film and display_available(os.environ))
    if window and not display_available(os.environ):
        raise WrongUse(
            "--window needs a display, and neither DISPLAY nor WAYLAND_DISPLAY is set; "
            "leave it out to get a film, or name one with --video FILE.mp4"
        )
    if not window:
        choose_offscreen_backend(os.environ)  # set before MuJoCo is imported
    from drumline.api.evaluation import (
        begin_episode,
        draws_actions,
        episode_seeds,
        longest_episode,
        sampled,
        telling,
    )
    from drumline.api.stored_policy import environment_of, load_policy
    from drumline.commands.closing import mean_line
    from drumline.commands.trusted_code import trust_of
    from drumline.runs.folder import RunFolder
    from drumline.runs.next_commands import as_typed
    from drumline.runs.own_files import refuse_links
    from drumline.runs.policy_files import read_policy
    from drumline.runs.problem import has_objective
    from drumline.runs.safe_text import visible
    from drumline.runs.typed_paths import typed

    folder = RunFolder.open(line.name())
    config = folder.document["config"]
    if has_objective(config):
        raise WrongUse(
            f"{folder.shown} searched an objective, which has no picture: its value is shown by "
            f"{as_typed(folder, 'evaluate')}"
        )
    stored = read_policy(folder, flags.policy)
    policy: Policy = load_policy(stored, trust_of(line, trust_code=flags.trust_code))
    sample = draws_actions(config, sample=flags.sample, deterministic=flags.deterministic)
    if sample:
        policy = sampled(policy, stored, config)
    made = _made_to_draw(environment_of(stored), "human" if window else "rgb_array")
    seeds = episode_seeds(flags.seed, flags.episodes)
    limit = longest_episode(config, flags.max_steps, made.limit)

    spec_id, place = environment_of(stored).id, [""]

    def begin(number: int, seed: int) -> None:
        place[0] = f"{spec_id}, episode {number}, seed {seed}"
        begin_episode(policy, flags.seed, number, seed)

    env, act = made.environment, policy.act
    try:
        with telling(lambda: place[0] or spec_id):
            if window:
                shown = show_episodes(env, act, seeds, begin=begin, max_steps=limit)
            else:
                out = typed(flags.video) if flags.video else folder.path / "episode.mp4"
                if flags.video is None:
                    refuse_links(folder.path, writing=True)  # ffmpeg would follow one
                print(f"filming up to {limit} env steps …", flush=True)
                film = {"begin": begin, "max_steps": limit, "grid": flags.grid}
                shown = record_episodes(env, act, seeds, out, **film)
                print(visible(flags.video or Path(folder.shown, "episode.mp4")))
    finally:
        made.close()
    if shown.closed:
        print("the window was closed: the episode that it showed is not counted")
    if shown.returns:
        print(f"{mean_line(shown.returns, config)}, {sum(shown.lengths)} env steps")
    return 0


def _refuse(flags: EnjoyFlags) -> None:
    from drumline.commands.evaluate import refuse_both_kinds

    refuse_both_kinds(sample=flags.sample, deterministic=flags.deterministic)
    if flags.window and flags.video is not None:
        raise WrongUse("--window and --video contradict each other: give one of them")
    if flags.window and flags.grid:
        raise WrongUse("--grid makes a film, and --window none: give one of them")
    for name in ("episodes", "max_steps"):
        if getattr(flags, name) < 1:
            option = name.replace("_", "-")
            raise WrongUse(f"--{option} must be 1 or more, got {getattr(flags, name)}")


def _made_to_draw(spec: "EnvironmentSpec", render_mode: str) -> "MadeEnvironment":
    """Make the environment; where EnvPool has it, Gymnasium's of the same id draws."""
    from dataclasses import replace

    from drumline.envs.environment import EnvironmentProblem
    from drumline.envs.make import make_environment
    from drumline.runs.safe_text import visible

    if spec.engine == "gymnasium":
        try:
            return make_environment(spec, render_mode=render_mode)
        except EnvironmentProblem as error:
            if ":" not in spec.id:
                raise
            make_environment(spec).close()  # else its own fault
            raise WrongUse(
                f"{error}: to be shown, {spec.id} takes an argument render_mode, here "
                f"{render_mode!r}, and has a render(), as Gymnasium's environments"
            ) from error
    trained = make_environment(spec)
    trained.close()
    drawn = replace(spec, engine="gymnasium")
    try:
        made = make_environment(drawn, render_mode=render_mode)
    except EnvironmentProblem:
        # A game of EnvPool's, which repeats no action by chance.
        options = {**spec.options, "repeat_action_probability": 0.0}
        drawn = replace(drawn, id=f"ALE/{spec.id}", options=options)
        try:
            made = make_environment(drawn, render_mode=render_mode)
        except EnvironmentProblem as error:
            raise WrongUse(
                f"EnvPool draws no pictures, and Gymnasium has no {spec.id} and no game of that "
                f"name ({error})"
            ) from error
    ours, theirs = (m.environment.observation_space.shape for m in (trained, made))
    if ours != theirs:
        made.close()
        raise WrongUse(
            f"EnvPool draws no pictures, and Gymnasium's {drawn.id} has other observations: "
            f"{theirs} instead of {ours}"
        )
    print(f"EnvPool draws no pictures: this is Gymnasium's {visible(drawn.id)}", flush=True)
    return made
