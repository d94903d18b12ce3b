"""Three sentences of the README, from the rows of a campaign's tables."""

from collections.abc import Sequence

from campaign_aes_tables import (
    GOALS,
    LEAST_SHARE,
    RIVALS,
    compared_with_rivals,
    is_met,
    span_of,
    told_apart,
)
from campaign_hts_tables import Beside, beside_baselines
from campaign_tables import Rows, published_rows

WIDTH = 120
RIVALS_OF_HTS = {"ppo": "lock-step `ppo`", "stable-baselines3-ppo": "Stable-Baselines3's PPO"}


def headlines(part: str, rows: Rows) -> list[str]:
    """Return a sentence for each of the three systems: what it has reached, as the tables say."""
    sentences = [of_es(rows), of_hts(rows), of_aes(rows)]
    return [line for sentence in sentences for line in folded(sentence)]


def of_es(rows: Rows) -> str:
    """Return how many rows of OpenAI-ES's MuJoCo table are met."""
    runs = [row for row in rows.runs if row["part"] == "openai-es"]
    table = published_rows(runs, rows.evaluations)
    made = [row for row in table if row.steps]
    if not made:
        return "OpenAI-ES: no run of the paper's MuJoCo table has ended."
    short = sum(row.begun and not row.steps for row in table)
    undecided = f"; {short} are undecided, because their runs are shorter" if short else ""
    return (
        f"OpenAI-ES reaches TRPO's scores within the published env steps in "
        f"{sum(row.met for row in made)} of the {len(table)} rows of the paper's MuJoCo table"
        f"{undecided} (medians over three or five seeds; published on v1 environments, ours on v5)."
    )


def of_hts(rows: Rows) -> str:
    """Return what share of its baselines' scores `hts` has, for each number of env steps."""
    runs = [row for row in rows.runs if row["part"] == "hts-goals"]
    found = [row for row in beside_baselines(runs, rows.evaluations) if row.complete]
    if not found:
        return "`hts` beside lock-step `ppo`: no runs have ended."
    pairs = dict.fromkeys((row.rival, row.env_steps) for row in found)
    parts = [
        _of_rival([row for row in found if (row.rival, row.env_steps) == pair]) for pair in pairs
    ]
    return (
        f"`hts` at equal env steps on {_tasks([row.env for row in found])}, by interquartile means "
        f"at four budgets each with their 95 % intervals: {'; '.join(parts)}."
    )


def _of_rival(found: Sequence[Beside]) -> str:
    ratios = [each for row in found for each in row.ratios]
    middles = [each.middle for each in ratios]
    low, high = min(each.low for each in ratios), max(each.high for each in ratios)
    seeds = len(found[0].seeds[0])
    return (
        f"{min(middles):.2f} to {max(middles):.2f} of the score of {RIVALS_OF_HTS[found[0].rival]} "
        f"within {found[0].env_steps:,} env steps ({seeds} seeds, intervals in {low:.2f} … "
        f"{high:.2f}, the goal met on {sum(row.verdict == 'met' for row in found)} of {len(found)})"
    )


def _tasks(envs: Sequence[str]) -> str:
    names = list(dict.fromkeys(env.rsplit("-v", 1)[0] for env in envs))
    return f"{', '.join(names[:-1])} and {names[-1]}" if names[1:] else names[0]


def of_aes(rows: Rows) -> str:
    """Return whether AES-RL is ahead of its baselines at 30,000 env steps."""
    found = [row for row in compared_with_rivals("aes-rl", rows) if row.complete]
    if not found:
        return (
            "AES-RL is not shown to be ahead of its baselines: the comparison with them "
            "has not been run with the same minibatches and random steps."
        )
    *rivals, last = (f"`{one}`" for one in RIVALS["aes-rl"])
    wanted, of = GOALS["aes-rl"]
    word = "met" if is_met("aes-rl", found) else "missed" if len(found) == of else "open"
    sentence = (
        f"AES-RL is ahead of {', '.join(rivals)} and {last} on {sum(row.ahead for row in found)} "
        f"of {len(found)} tasks at 30,000 env steps, {span_of(found)} (goal: {wanted} of {of}, "
        f"nowhere below {LEAST_SHARE}; {word})."
    )
    fresh = [row for row in compared_with_rivals("aes-rl-fresh", rows) if row.complete]
    if fresh:
        sentence += (
            f" With seeds that no choice has seen it is ahead on {sum(row.ahead for row in fresh)} "
            f"of {len(fresh)}, {span_of(fresh)}."
        )
    return (
        f"{sentence}{told_apart([*found, *fresh])} Five episodes of its mean for each individual "
        "are not counted; its rivals use none."
    )


def folded(sentence: str) -> list[str]:
    """Return a sentence as an item of a list, in lines."""
    lines, line = list[str](), "*"
    for word in sentence.split():
        if len(line) + 1 + len(word) > WIDTH:
            lines.append(line)
            line = " "
        line += f" {word}"
    return [*lines, line]
