"""Tables of AES-RL, of required times and of a peer, from small rows whose outcome is known."""

import csv
import io
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmark_scripts import load_script

HERE = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def campaign() -> Any:
    """The modules of a campaign, imported as its script imports them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HERE / "benchmarks"))
        patch.syspath_prepend(str(HERE / "benchmarks" / "learning"))
        yield load_script("", "campaign")


def table_of(campaign: Any, part: str, rows: Any) -> list[list[str]]:
    """Return the cells of a part's table, without its two first lines."""
    lines = lines_of(campaign, part, rows)
    return [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")
    ][2:]


def lines_of(campaign: Any, part: str, rows: Any) -> list[str]:
    return campaign.fill(f"<!-- begin {part} -->\n<!-- end {part} -->", rows).splitlines()


def goal_of(campaign: Any, part: str, rows: Any) -> str:
    """Return the sentence with a part's goal; curves that have been drawn come after it."""
    (line,) = (line for line in lines_of(campaign, part, rows) if line.startswith("Goal: "))
    return line


def made(
    part: str, scores: dict[tuple[str, str], list[float]], steps: int = 30_000
) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Rows of runs whose evaluations at half and at the whole of the steps have the same score."""
    runs, curves = [], []
    for (name, env), finals in scores.items():
        method, release, _ = name.partition("-first-release")
        for seed, score in enumerate(finals):
            key = {"group": f"{method}-{env}{release}", "seed": str(seed)}
            run = {**key, "part": part, "method": method, "env": env, "env_steps": str(steps)}
            runs.append({**run, "final_mean": f"{score}", "best_mean": f"{score}"})
            curves += [
                {**key, "env_steps": str(at), "mean": f"{score}", "of": "", "virtual_seconds": ""}
                for at in (steps // 2, steps)
            ]
    return runs, curves


def test_scores_at_equal_env_steps_do_not_depend_on_the_place_of_the_evaluations(campaign: Any):
    methods = ("aes", "td3", "td3-first-release", "cem-rl")
    runs, curves = made("aes-rl", {(method, "Hopper-v5"): [0.0] * 3 for method in methods})
    ends = {"aes": 30_000, "td3": 30_000, "cem-rl": 33_000}
    for run in runs:
        run["env_steps"] = str(ends[run["method"]])
    places = dict.fromkeys(methods, (15_000, 30_000)) | {"cem-rl": (27_000, 33_000)}
    spread = [at for method in methods for _ in range(3) for at in places[method]]
    for row, at in zip(curves, spread, strict=True):
        # Every method learns at the same speed: a return of 1 for 100 env steps.
        row.update(env_steps=str(at), mean=str(at / 100))
    (row,) = table_of(campaign, "aes-rl", campaign.Rows(runs, curves))
    assert [cell.split()[0] for cell in row[3:7]] == ["300"] * 4
    assert row[7:] == ["1.00", "ahead"]


TASKS = ("Hopper-v5", "Walker2d-v5", "HalfCheetah-v5", "Swimmer-v5", "InvertedDoublePendulum-v5")


@pytest.fixture
def zero(campaign: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random policies have a return of 0, so that shares are those of the returns."""
    monkeypatch.setattr(sys.modules["campaign_aes_tables"], "random_means", dict)


@pytest.mark.usefixtures("zero")
@pytest.mark.parametrize(
    ("scores", "verdicts", "goal"),
    [
        ([110, 120, 101, 100, 95], ["ahead"] * 4 + ["within 0.9"], "met"),
        ([110, 120, 101, 100, 85], ["ahead"] * 4 + ["behind"], "missed"),
        ([110, 120, 101, 99, 95], ["ahead"] * 3 + ["within 0.9"] * 2, "missed"),
    ],
)
def test_aes_is_to_be_ahead_of_all_rivals_on_four_tasks_of_five(
    campaign: Any, scores: list[float], verdicts: list[str], goal: str
):
    best = {("td3", TASKS[0]): 100.0, ("cem-rl", TASKS[0]): 50.0}
    runs, curves = made(
        "aes-rl",
        {
            (method, task): [score] * 5
            for number, task in enumerate(TASKS)
            for method, score in (
                ("aes", scores[number]),
                ("td3", best[("td3", TASKS[0])] if number % 2 else 40.0),
                ("cem-rl", 100.0),
                ("td3-first-release", 60.0),
            )
        },
    )
    rows = campaign.Rows(runs, curves)
    cells = table_of(campaign, "aes-rl", rows)
    assert [row[0] for row in cells] == list(TASKS)
    assert [row[-1] for row in cells] == verdicts
    means = ["110 (110 … 110)", "40 (40 … 40)", "100 (100 … 100)", "60 (60 … 60)"]
    assert cells[0][3:8] == [*means, "1.10"]
    ahead, least = sum(score >= 100 for score in scores), min(scores) / 100
    assert f"nowhere below 0.9: {goal}, ahead on {ahead}, with {least:.2f} to 1.20 of" in goal_of(
        campaign, "aes-rl", rows
    )
    apart = sum(score != 100 for score in scores)
    assert f"tell the two apart on {apart} of 5." in goal_of(campaign, "aes-rl", rows)
    some = {run["seed"] for run in runs[:3]}
    three = campaign.Rows([run for run in runs if run["seed"] in some], curves)
    assert "apart" not in goal_of(campaign, "aes-rl", three)
    last = [run for run in runs if run["env"] == TASKS[4] and run["seed"] == runs[0]["seed"]]
    begun = campaign.Rows([run for run in runs if run not in last], curves)
    assert table_of(campaign, "aes-rl", begun)[4][-1] == "runs are outstanding"
    assert "of the 4 that are compared, with" in goal_of(campaign, "aes-rl", begun)
    some = campaign.Rows([run for run in runs if run["env"] != TASKS[4]], curves)
    ahead = sum(score >= 100 for score in scores[:4])
    assert f"so far ahead on {ahead} of the 4 that are compared, with" in goal_of(
        campaign, "aes-rl", some
    )


def test_scores_at_equal_seconds_are_those_when_the_quickest_has_ended(campaign: Any):
    seconds = {"aes": 400.0, "td3": 100.0, "cem-rl": 800.0, "td3-first-release": 200.0}
    runs, curves = made("aes-rl", {(method, TASKS[0]): [0.0] * 3 for method in seconds})
    for row in curves:
        name, _, release = row["group"].partition(f"-{TASKS[0]}")
        whole = int(row["env_steps"]) / 30_000
        row["wall_seconds"] = f"{whole * seconds[name + release]}"
        row["mean"] = f"{100.0 * whole}"
    for run in runs:
        run["machine"] = "a processor"
    (cells,) = table_of(campaign, "aes-rl-seconds", campaign.Rows(runs, curves))
    # Behind its first evaluation a score is on the line; before it, that evaluation's.
    expected = {"aes": "50", "td3": "100", "cem-rl": "50", "td3-first-release": "50"}
    assert cells[:3] == [TASKS[0], "100", "`td3`"]
    assert [cell.partition(" ")[0] for cell in cells[3:]] == list(expected.values())
    some = [run for run in runs if run["method"] != "cem-rl"]
    assert table_of(campaign, "aes-rl-seconds", campaign.Rows(some, curves)) == []
    elsewhere = [{**run, "env": TASKS[1]} for run in runs]
    elsewhere[0]["machine"] = "another"
    lines = lines_of(campaign, "aes-rl-seconds", campaign.Rows([*runs, *elsewhere], curves))
    assert f"several kinds of processors: {TASKS[1]}." in "".join(lines)
    assert sum(line.startswith(f"| {TASKS[1]}") for line in lines) == 0


def test_no_verdict_is_told_without_tds_first_release(campaign: Any):
    others = {(method, "Hopper-v5"): [100.0] * 3 for method in ("aes", "td3", "cem-rl")}
    runs, curves = made("aes-rl", others)
    more = made("aes-rl", {("td3-first-release", "Hopper-v5"): [200.0] * 3})
    (row,) = table_of(campaign, "aes-rl", campaign.Rows(runs + more[0], curves + more[1]))
    assert row[3:7] == ["100 (100 … 100)"] * 3 + ["200 (200 … 200)"]
    zero = sys.modules["campaign_tables"].random_means()["Hopper-v5"]
    assert row[7:] == [f"{(100 - zero) / (200 - zero):.2f}", "behind"]
    (row,) = table_of(campaign, "aes-rl", campaign.Rows(runs, curves))
    assert row[6:] == ["", "", "runs are outstanding"]
    words = " ".join(lines_of(campaign, "headlines", campaign.Rows(runs, curves)))
    assert "AES-RL is not shown to be ahead" in words


def test_shares_of_the_best_rival_are_counted_from_a_random_policys_return(campaign: Any):
    zero = sys.modules["campaign_tables"].random_means()["HalfCheetah-v5"]
    assert zero < -100
    scores = {("aes", "HalfCheetah-v5"): [50.0] * 3, ("td3", "HalfCheetah-v5"): [-100.0] * 3}
    scores[("cem-rl", "HalfCheetah-v5")] = [-200.0] * 3
    scores[("td3-first-release", "HalfCheetah-v5")] = [-150.0] * 3
    (row,) = table_of(campaign, "aes-rl", campaign.Rows(*made("aes-rl", scores)))
    assert row[7:] == [f"{(50 - zero) / (-100 - zero):.2f}", "ahead"]


def test_a_task_without_all_its_rivals_has_scores_and_no_verdict(campaign: Any):
    scores = {("aes", "Hopper-v5"): [5.0, 6.0, 7.0], ("td3", "Hopper-v5"): [1.0, 1.0, 1.0]}
    (row,) = table_of(campaign, "aes-rl", campaign.Rows(*made("aes-rl", scores)))
    assert row[3].startswith("6 (")
    assert row[5:] == ["", "", "", "runs are outstanding"]


def test_methods_are_compared_by_the_seeds_that_all_have(campaign: Any):
    scores = {
        ("aes", "Hopper-v5"): [5.0, 6.0],
        ("td3", "Hopper-v5"): [1.0, 3.0, 500.0],
        ("cem-rl", "Hopper-v5"): [2.0, 2.0, 2.0],
    }
    (row,) = table_of(campaign, "aes-rl", campaign.Rows(*made("aes-rl", scores)))
    assert row[2:6] == ["0, 1", "5.5", "2", "2"]


def test_steadiness_has_the_worst_seed_and_the_largest_fall(campaign: Any):
    run = {"group": "g", "part": "aes-ablation", "method": "aes", "env": "X", "env_steps": "30"}
    runs = [{**run, "seed": "0"}, {**run, "seed": "1"}]
    curves = [
        {"group": "g", "seed": seed, "env_steps": f"{at}", "mean": mean, "of": "", **virtual}
        for seed, means in (("0", ("10", "50", "20")), ("1", ("0", "10", "30")))
        for at, mean in zip((10, 20, 30), means, strict=True)
        for virtual in ({"virtual_seconds": f"{at * (int(seed) + 1)}"},)
    ]
    (row,) = table_of(campaign, "aes-ablation", campaign.Rows(runs, curves))
    # The seeds fall by 30 and by 0.
    assert row == ["`g`", "0, 1", "30", "25", "20", "3", "15", "45"]


def test_contributions_are_means_over_the_seeds_of_a_run(campaign: Any):
    def row(seed: int, es: int, rl: int, path: str) -> dict[str, str]:
        shares = {"rl_path_share": path, "rl_gain_share": ""}
        means = {"es_improvement_over_mean": "-2", "rl_improvement_over_mean": f"{seed}"}
        steps = {"es_step_size": "0.25", "rl_step_size": "0.5"}
        key = {"group": "g", "part": "aes-rl", "env": "Hopper-v5", "seed": f"{seed}"}
        told = {"es_individuals": f"{es}", "rl_individuals": f"{rl}"}
        return {**key, **told, **shares, **means, **steps}

    individuals = [row(0, 30, 10, "0.5"), row(1, 20, 40, "0.9")]
    (cells,) = table_of(campaign, "aes-contributions", campaign.Rows([], (), individuals))
    assert cells == ["`g`", "Hopper-v5", "0, 1", "50%", "70%", "", "-2, 0.5", "0.25, 0.5"]


def test_tuned_rules_have_what_moved_the_mean_and_what_followed(campaign: Any):
    def row(seed: int, worse: str, kept: str) -> dict[str, str]:
        key = {"group": "g", "part": "aes-tuning", "env": "Hopper-v5", "seed": f"{seed}"}
        stds = {"first_sampling_std": "0.03", "last_sampling_std": "0.01"}
        shares = {"es_worse_path_share": worse, "rl_worse_path_share": ""}
        return {**key, **stds, **shares, "es_kept_gain": kept, "rl_kept_gain": "1"}

    individuals = [row(100, "0.2", "-0.1"), row(101, "0.4", "0.3")]
    (cells,) = table_of(campaign, "aes-followed", campaign.Rows([], (), individuals))
    assert cells == ["`g`", "Hopper-v5", "100, 101", "30%, –", "0.03, 0.01", "0.1, 1"]


@pytest.mark.parametrize(
    ("part", "clock"), [("aes-virtual", "virtual_seconds"), ("aes-two-cores", "wall_seconds")]
)
@pytest.mark.parametrize(("reached_at", "word"), [(50, "met"), (70, "missed"), (999, "missed")])
def test_aes_is_to_have_the_score_in_a_share_of_the_seconds(
    campaign: Any, reached_at: int, word: str, part: str, clock: str
):
    runs = [
        {"group": method, "part": part, "method": method, "env": "X", "seed": seed}
        for method in ("aes", "p-cem-rl")
        for seed in "01"
    ]
    curves = [
        {
            "group": run["group"],
            "seed": run["seed"],
            "env_steps": f"{at}",
            "of": "",
            "mean": "100" if at >= (40 if run["method"] == "p-cem-rl" else reached_at) else "0",
            clock: f"{at}",
        }
        for run in runs
        for at in range(10, 110, 10)
    ]
    (row,) = table_of(campaign, part, campaign.Rows(runs, curves))
    share = (
        [f"{reached_at}", f"{reached_at / 100:.2f}"] if reached_at < 100 else ["not reached", ""]
    )
    assert row == ["X", "2 and 2", "100", "100", "40", *share, word]


@pytest.mark.parametrize(("again", "cells"), [("95", ["100", "1.00"]), ("85", []), (None, [])])
def test_a_score_that_the_last_evaluation_has_first_counts_if_one_more_is_near(
    campaign: Any, again: str | None, cells: list[str]
):
    curves = [
        {
            "group": method,
            "seed": "0",
            "env_steps": f"{at}",
            "of": "",
            "mean": "100" if at == 100 or (method == "p-cem-rl" and at > 10) else "0",
            "virtual_seconds": f"{at}",
        }
        for method in ("aes", "p-cem-rl")
        for at in range(10, 110, 10)
    ]
    key = {"part": "aes-virtual", "env": "X", "seed": "0"}
    runs = [{**key, "group": method, "method": method} for method in ("aes", "p-cem-rl")]
    if again is not None:
        curves.append({**curves[9], "mean": again, "of": "last again"})
    (row,) = table_of(campaign, "aes-virtual", campaign.Rows(runs, curves))
    assert row[5:] == [*(cells or ["not reached", ""]), "missed"]


@pytest.mark.parametrize(
    ("theirs", "ours", "cells"),
    [
        ((-100, -120, -165), (-50, -50, -50), ["", "", "", "not compared"]),  # it has unlearned
        ((0, 50, 100), (100, 20, 100), ["30", "not reached", "", "missed"]),  # lost again at once
    ],
)
def test_a_time_needs_a_score_that_was_learned_and_that_is_held(
    campaign: Any, theirs: tuple[int, ...], ours: tuple[int, ...], cells: list[str]
):
    key = {"part": "aes-virtual", "env": "X", "seed": "0"}
    runs = [{**key, "group": method, "method": method} for method in ("aes", "p-cem-rl")]
    curves = [
        {**key, "group": group, "env_steps": at, "of": "", "mean": f"{mean}", "virtual_seconds": at}
        for group, means in (("aes", ours), ("p-cem-rl", theirs))
        for at, mean in zip(("10", "20", "30"), means, strict=True)
    ]
    (row,) = table_of(campaign, "aes-virtual", campaign.Rows(runs, curves))
    assert row[4:7] == cells[:3]
    assert row[7].startswith(cells[3])


def test_p_is_the_share_of_exchanges_that_set_samples_of_unequal_size_as_far_apart(campaign: Any):
    chance = import_module("campaign_hts_tables").chance
    # Of ten pairs 0 and 1, 2 and 9, 3 and 9 lie as far from the other three; one of them is below.
    assert chance(np.array([0.0, 1.0]), np.array([2.0, 3.0, 9.0])) == pytest.approx(0.3)


TIMES = """
env,score,method,seed,reached_env_steps,reached_seconds,sum_bound_env_steps_per_second,other_busy_cores,group
CartPole-v1,475,hts,0,1000,10,,0.01,g
CartPole-v1,475,hts,1,1200,12,,0.01,g
CartPole-v1,475,hts,2,1100,11,,0.02,g
CartPole-v1,475,ppo,0,1000,14.3,,0.01,g
CartPole-v1,475,ppo,1,1000,22,,0.01,g
CartPole-v1,475,ppo,2,1000,20,,0.01,g
CartPole-v1,475,impala,0,,,,0.01,g
CartPole-v1,475,impala,1,,,,0.01,g
CartPole-v1,475,impala,2,900,9,,0.01,g
CartPole-v1,475,stable-baselines3-ppo,0,1000,20,,0.01,g
CartPole-v1,475,stable-baselines3-ppo,1,1000,21,,0.01,g
CartPole-v1,475,stable-baselines3-ppo,2,1000,22,,0.31,g
Pong-v5,18,hts,0,1000,100,550,0.01,h
Pong-v5,18,ppo,0,1000,110,500,0.01,h
Pong-v5,18,impala,0,1000,130,,0.01,h
"""


def test_required_times_are_ratios_to_those_of_hts_beside_their_goals(campaign: Any):
    times = list(csv.DictReader(io.StringIO(TIMES.strip())))
    rows = campaign.Rows([], scripts={"required_time.csv": times})
    cells = table_of(campaign, "required-time", rows)
    by_method = {(row[0], row[2]): row for row in cells}
    hts = by_method["CartPole-v1", "`hts`"]
    assert hts[3:] == ["3 (3)", "1,100", "11.0", "", "", ""]
    ppo = by_method["CartPole-v1", "`ppo`"]
    assert ppo[5:] == ["20.0", ppo[6], "≥ 1.4", "met"]
    assert ppo[6].startswith("1.82 (1.")
    impala = by_method["CartPole-v1", "`impala`"]
    assert impala[3:] == ["3 (1)", "not reached", "not reached", "not reached", "", ""]
    peer = by_method["CartPole-v1", "`stable-baselines3-ppo`"]
    assert peer[6].startswith("1.91 (")
    assert peer[7:] == ["≥ 2.5", "missed"]
    # 0.95 of 550 / 500 is 1.045.
    assert by_method["Pong-v5", "`ppo`"][6:] == ["1.10", "≥ 1.04", "met"]
    assert by_method["Pong-v5", "`impala`"][6:] == ["1.30", "", ""]
    unreached = [{**row, "reached_seconds": ""} for row in times if row["env"] == "Pong-v5"]
    few = campaign.Rows([], scripts={"required_time.csv": unreached})
    assert table_of(campaign, "required-time", few)[1][6:] == ["", "≥ 1.04", "open"]
    times[-2]["reached_seconds"] = "104"
    short = campaign.Rows([], scripts={"required_time.csv": times})
    assert table_of(campaign, "required-time", short)[5][6:] == ["1.04", "≥ 1.04", "missed"]
    assert "At most 0.31 cores were busy with other work" in "\n".join(
        lines_of(campaign, "required-time", rows)
    )


def test_a_peer_has_a_goal_of_its_own(campaign: Any):
    steps = 1000
    runs, curves = [], []
    for method, gain in (("hts", 0.93), ("ppo", 1.0), ("stable-baselines3-ppo", 1.0)):
        for seed in range(4):
            key = {"group": method, "seed": str(seed), "of": ""}
            run = {**key, "part": "hts-goals", "method": method, "env": "CartPole-v1"}
            runs.append({**run, "env_steps": str(steps)})
            curves += [
                {**key, "env_steps": f"{at}", "mean": f"{22.3 + gain * at}"}
                for at in (250, 500, 750, 1000)
            ]
    ours, peer = table_of(campaign, "hts-goals", campaign.Rows(runs, curves))
    assert (ours[1], ours[-1]) == ("`ppo`", "missed")
    assert (peer[1], peer[-1]) == ("`stable-baselines3-ppo`", "met")

    fewer = [run for run in runs if run["method"] != "stable-baselines3-ppo" or run["seed"] == "0"]
    rows = campaign.Rows(fewer, curves)
    assert table_of(campaign, "hts-goals", rows)[1][-1] == "open"
    told = " ".join(" ".join(lines_of(campaign, "headlines", rows)).split())
    assert "lock-step `ppo` within 1,000 env steps (4 seeds" in told
    assert "Stable-Baselines3" not in told


def test_runs_of_the_same_flags_are_one_sample_beside_a_peer(campaign: Any):
    """Counted from random actions; exchanges tell samples that lie apart from those that do not."""
    zero = sys.modules["campaign_tables"].random_means()["Hopper-v5"]
    scores = {
        "goal-hts-Hopper": [zero + gain for gain in range(100, 108)],
        "hts-Hopper-more": [zero + gain for gain in range(108, 116)],
        "ppo-Hopper-renewed": [zero + gain for gain in range(201, 217)],
        "goal-sb3-Hopper": [zero + gain for gain in range(200, 216)],
        "ppo-Walker2d-gymnasium": [500.0] * 3,
        "goal-hts-Hopper-1M": [9000.0] * 3,
    }
    runs, curves = [], []
    for group, finals in scores.items():
        one, other = made("hts-engines", {(group, "x"): finals})
        first = 8 if group.endswith("more") else 0
        for row in [*one, *other]:
            row.update(group=group, seed=str(first + int(row["seed"])))
        for row in one:
            row["part"] = "hts-goals" if "goal" in group else "hts-engines"
        runs, curves = runs + one, curves + other
    hts, ppo, peer, walker = table_of(campaign, "hts-engines", campaign.Rows(runs, curves))[-4:]
    assert hts[:3] == ["Hopper-v5", "`hts`", "0–15"]
    assert hts[4].startswith("0.52 (0.")
    assert float(hts[5]) < 0.001
    assert ppo[1:3] == ["`ppo`", "0–15"]
    assert ppo[4].startswith("1.00 (0.")
    assert float(ppo[5]) > 0.3
    assert peer[:3] == ["Hopper-v5", "Stable-Baselines3", "0–15"]
    assert peer[4:] == ["", ""]
    assert walker[:3] == ["Walker2d-v5", "`ppo` on Gymnasium", "0–2"]
    assert walker[4:] == ["", ""], "its peer has no row"


def test_runs_of_one_sample_differ_in_their_seeds_alone(campaign: Any):
    tables = sys.modules["campaign_hts_tables"]
    rows = campaign.rows_of(campaign.read_queue(HERE / "benchmarks" / "campaign.toml")).runs
    pooled = 0
    for task in tables.POOLED_TASKS:
        for names in tables.POOLS.values():
            mine = [row for row in rows if row["group"] in {name.format(task) for name in names}]
            seeds = [row["seed"] for row in mine]
            assert len(set(seeds)) == len(seeds), f"{names}: a seed counts twice"
            flags = {
                frozenset(word for word in row["command"].split() if not word.startswith("--seed="))
                for row in mine
            }
            assert len(flags) <= 1, f"{names} on {task}"
            pooled += len({row["group"] for row in mine}) > 1
    assert pooled > 3


def test_last_scores_stand_in_the_order_of_the_seeds(campaign: Any):
    scores = {("hts", "Pong-v5"): [20.5, -3.0], ("a2c", "Pong-v5"): [1.0]}
    rows = campaign.Rows(*made("hts-atari", scores, 2_000_000))
    cells = table_of(campaign, "hts-atari", rows)
    assert cells[0][1:] == ["`hts`", "`hts-Pong-v5`", "0, 1", "2,000,000", "20.5, -3", "20.5, -3"]
    assert [row[1] for row in cells] == ["`hts`", "`a2c`"]


def test_headlines_without_rows_claim_nothing(campaign: Any):
    lines = lines_of(campaign, "headlines", campaign.Rows([]))
    words = " ".join(lines)
    assert sum(line.startswith("* ") for line in lines) == 3
    assert "no run of the paper's MuJoCo table has ended" in words
    assert "no runs have ended" in words
    assert "not shown to be ahead" in words


def test_headlines_have_the_numbers_of_the_tables(campaign: Any):
    es = made("openai-es", {("es", "HalfCheetah-v5"): [1600.0] * 3}, steps=1_420_000)
    scores = {("hts", "Hopper-v5"): [1000.0] * 3, ("ppo", "Hopper-v5"): [2000.0] * 3}
    hts = made("hts-goals", scores)
    aes = made("aes-rl", {(method, "Hopper-v5"): [100.0] * 3 for method in ("aes", "td3")})
    runs, curves = (es[k] + hts[k] + aes[k] for k in range(2))
    words = " ".join(
        line.strip() for line in lines_of(campaign, "headlines", campaign.Rows(runs, curves))
    )
    # 25, 50 and 75 % of TRPO's score have published env steps that the runs are long enough for,
    # and their first evaluation is too late for the first of them.
    table = table_of(campaign, "openai-es", campaign.Rows(runs, curves))
    met = sum(row[-1] == "met" for row in table)
    short = sum(row[-1] == "runs are too short" for row in table)
    assert met > 0
    assert short > 0
    assert f"in {met} of the {len(table)} rows" in words
    assert f"; {short} are undecided" in words
    (row,) = (row for row in table_of(campaign, "hts-goals", campaign.Rows(runs, curves)))
    assert f"intervals: {row[4].split()[0]} to" in words
    assert f"lock-step `ppo` within {row[3]} env steps (3 seeds" in words
    assert "AES-RL is not shown to be ahead" in words
    assert "no choice has seen" not in words


@pytest.mark.usefixtures("zero")
def test_the_headline_of_aes_tells_the_seeds_that_no_choice_has_seen_apart(campaign: Any):
    def scores(aes: float) -> dict[tuple[str, str], list[float]]:
        return {
            (method, f"{task}-v5"): [score] * 5
            for task in ("HalfCheetah", "Hopper", "Walker2d")
            for method, score in (
                ("aes", aes),
                ("td3", 50.0),
                ("td3-first-release", 60.0),
                ("cem-rl", 100.0),
            )
        }

    both = [made("aes-rl", scores(150.0)), made("aes-rl-fresh", scores(80.0))]
    for row in [*both[1][0], *both[1][1]]:
        row["group"] = f"fresh-{row['group']}"
    runs, curves = (both[0][k] + both[1][k] for k in range(2))
    words = " ".join(lines_of(campaign, "headlines", campaign.Rows(runs, curves)))
    told, _, fresh = " ".join(words.split()).partition("With seeds that no choice has seen")
    assert "on 3 of 3 tasks at 30,000 env steps, with 1.50 to 1.50 of the best rival's" in told
    assert "nowhere below 0.9; open)" in told
    assert "it is ahead on 0 of 3, with 0.80 to 0.80 of the best rival's score" in fresh


def test_the_readme_has_the_headlines_of_the_rows(campaign: Any):
    text = (HERE / "README.md").read_text()
    groups = campaign.read_queue(HERE / "benchmarks" / "campaign.toml")
    assert campaign.fill(text, campaign.rows_of(groups)) == text


def studied(part: str, scores: dict[str, list[float]], env: str = "Swimmer-v5", **more: str) -> Any:
    """Rows of studies: group → scores by seed; `more`: flags by group."""
    runs, curves = made(part, {(group, env): found for group, found in scores.items()}, 1000)
    for row in [*runs, *curves]:
        row["group"] = row["group"].removesuffix(f"-{env}")
    for run in runs:
        run["command"] = "drumline train es " + more.get(run["group"].replace("-", "_"), "")
    return runs, curves


def test_subspaces_count_their_share_from_random_actions(campaign: Any):
    scores = {"all": [204.0] * 3, "wide": [188.0] * 3, "less": [186.0] * 3, "one": [20.0] * 3}
    flags = {"wide": "--subspace=2000", "less": "--subspace=20", "one": "--subspace=5"}
    runs, curves = studied("es-subspaces", scores, **flags)
    tables = sys.modules["campaign_es_tables"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "random_means", lambda: {"Swimmer-v5": 4.0})
        lines = lines_of(campaign, "es-subspaces", campaign.Rows(runs, curves))
        table = table_of(campaign, "es-subspaces", campaign.Rows(runs, curves))
    assert [(row[1], row[-1]) for row in table] == [
        ("5", "0.08"),
        ("20", "0.91"),
        ("2,000", "0.92"),
        ("all", "1.00"),
    ]
    assert "Swimmer-v5 has 0.9 of the score of all parameters with 20." in lines


def test_every_task_of_a_subspace_has_a_score_of_random_actions(campaign: Any):
    studies = campaign.read_queue(HERE / "benchmarks" / "es_studies.toml")
    tasks = {group.env for group in studies if group.part == "es-subspaces"}
    assert len(tasks) == 3
    assert tasks <= set(sys.modules["campaign_tables"].random_means())


def test_settings_stand_below_the_preset_at_the_env_steps_that_all_have(campaign: Any):
    runs, curves = studied("es-variants", {"bins": [7.0] * 3})
    for row in [*runs, *curves]:
        row["env_steps"] = str(int(row["env_steps"]) // 2)
    wholes, curves_of_all = studied("es-subspaces", {"all": [9.0]})
    curves_of_all[0]["mean"] = "3"  # that at 500 env steps
    rows = campaign.Rows([*runs, *wholes], [*curves, *curves_of_all])
    table = table_of(campaign, "es-variants", rows)
    assert [row[1] for row in table] == ["`all`", "`bins`"]
    assert [row[3] for row in table] == ["500"] * 2
    assert (table[0][-1], table[1][-1][0]) == ("3", "7")
    assert table[0][4:7] == ["", "", ""]  # the preset was first evaluated at 500 env steps
    assert table[1][4] == ""


def test_frame_skips_compare_equal_updates(campaign: Any):
    flags = {"skip1": "'--env-kwargs={\"frame_skip\": 1}'"}
    runs, curves = studied("es-frame-skip", {"skip1": [19.0]}, "Freeway-v5", **flags)
    preset, more = studied("es-atari", {"preset": [21.0]}, "Freeway-v5")
    rows = campaign.Rows([*runs, *preset], [*curves, *more])
    table = table_of(campaign, "es-frame-skip", rows)
    assert table == [["1", "500", "19.0", "19.0"], ["4", "500", "21.0", "21.0"]]


def test_curves_stand_beside_the_preset_up_to_the_env_steps_that_all_have(campaign: Any):
    runs, curves = studied("es-variants", {"es-HalfCheetah-bins": [7.0] * 3}, "HalfCheetah-v5")
    wholes = {"es-HalfCheetah-all": [9.0, 9.0, 3.0]}
    wholes, longer = studied("es-subspaces", wholes, "HalfCheetah-v5")
    longer += [{**row, "env_steps": "2000", "mean": "99"} for row in longer[1::2]]
    for row in [*runs, *wholes]:
        row |= {"method": "es"}
    rows = campaign.Rows([*runs, *wholes], [*curves, *longer])
    (panel,) = sys.modules["campaign_curves"].panels("es-variants", rows)
    assert panel.title == "HalfCheetah-v5, actions, mirroring, seeds"
    assert [curve.label for curve in panel.curves] == ["preset", "bins"]
    for curve, scores in zip(panel.curves, ([9, 9, 3], [7, 7, 7]), strict=True):
        assert curve.steps.tolist() == [500, 1000]
        assert curve.scores.T.tolist() == [scores] * 2


def test_budgets_of_one_task_are_drawn_apart(campaign: Any):
    short = {("hts", "Hopper-v5"): [1.0] * 3, ("stable-baselines3-ppo", "Hopper-v5"): [2.0] * 3}
    runs, curves = made("hts-goals", short)
    longer = [
        [
            {**row, "group": f"{row['group']}-1M", "env_steps": f"{5 * int(row['env_steps'])}"}
            for row in rows
        ]
        for rows in (runs, curves)
    ]
    rows = campaign.Rows([*runs, *longer[0]], [*curves, *longer[1]])
    panels = sys.modules["campaign_curves"].panels("hts-goals", rows)
    assert [panel.title for panel in panels] == [
        "Hopper-v5, 30,000 env steps",
        "Hopper-v5, 150,000 env steps",
    ]
    for panel in panels:
        assert [curve.label for curve in panel.curves] == ["hts", "stable-baselines3-ppo"]


def test_the_longer_of_two_runs_of_the_humanoid_is_drawn_alone(campaign: Any):
    runs, curves = made("humanoid", {("es", "Humanoid-v5"): [500.0]})
    longer = [
        [{**row, "group": "longer", "env_steps": "18000000"} for row in rows[-1:]]
        for rows in (runs, curves)
    ]
    rows = campaign.Rows([*runs, *longer[0]], [*curves, *longer[1]])
    (panel,) = sys.modules["campaign_curves"].panels("humanoid", rows)
    assert panel.title == "Humanoid-v5"
    assert [curve.steps.tolist() for curve in panel.curves] == [[18_000_000]]


def test_a_picture_is_written_where_two_curves_can_be_compared(campaign: Any, tmp_path: Path):
    runs, curves = made("aes-rl", {("td3", "Hopper-v5"): [1.0] * 3, ("aes", "Hopper-v5"): [2.0]})
    draw = sys.modules["campaign_curves"].draw
    assert draw(campaign.Rows(runs[:3], curves[:6]), tmp_path) == []
    assert draw(campaign.Rows(runs, curves), tmp_path) == [tmp_path / "campaign-aes-rl.png"]
    assert (tmp_path / "campaign-aes-rl.png").read_bytes().startswith(b"\x89PNG")
