"""Three sentences of the README, from the rows of a campaign's tables."""

from campaign_aes_tables import RIVALS, beside_rivals
from campaign_hts_tables import RATIO_GOALS, beside_baselines
from campaign_tables import Rows, published_rows, seeds_in_words

WIDTH = 120


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
    """Return what share of `ppo`'s score `hts` has, on the tasks with the most seeds."""
    runs = [row for row in rows.runs if row["part"] == "hts-goals"]
    found = [row for row in beside_baselines(runs, rows.evaluations) if row.rival == "ppo"]
    if not found:
        return "`hts` beside lock-step `ppo`: no runs have ended."
    most = max(len(row.seeds[0]) for row in found)
    best = [row for row in found if len(row.seeds[0]) == most]
    ratios = [each for row in best for each in row.ratios]
    middles = [each.middle for each in ratios]
    tasks = ", ".join(row.env for row in best)
    goal = RATIO_GOALS["ppo"]
    met = sum(
        all(each.middle >= goal.middle and each.low >= goal.low for each in row.ratios)
        for row in best
    )
    return (
        f"`hts` has {min(middles):.2f} to {max(middles):.2f} of lock-step `ppo`'s score at equal "
        f"env steps on {tasks} (interquartile means at four budgets each, seeds "
        f"{seeds_in_words(best[0].seeds[0])}, {best[0].env_steps:,} env steps; the 95 % intervals "
        f"lie within {min(each.low for each in ratios):.2f} … "
        f"{max(each.high for each in ratios):.2f}; the goal is met on {met} of {len(best)})."
    )


def of_aes(rows: Rows) -> str:
    """Return whether AES-RL is ahead of its baselines at 30,000 env steps."""
    table = beside_rivals("aes-rl", rows)
    if not table:
        return (
            "AES-RL is not shown to be ahead of its baselines: the comparison with them "
            "has not been run with the same minibatches and random steps."
        )
    *rivals, last = (f"`{one}`" for one in RIVALS["aes-rl"])
    beside = f"{', '.join(rivals)} and {last}"
    sentence = f"AES-RL beside {beside} at 30,000 env steps. {table[-1]}"
    if fresh := beside_rivals("aes-rl-fresh", rows):
        sentence += f" Over seeds that no choice has seen: {fresh[-1]}"
    return sentence


def folded(sentence: str) -> list[str]:
    """Return a sentence as an item of a list, in lines."""
    lines, line = list[str](), "*"
    for word in sentence.split():
        if len(line) + 1 + len(word) > WIDTH:
            lines.append(line)
            line = " "
        line += f" {word}"
    return [*lines, line]
