"""Comparing with runs of other libraries: their logs, whole, cut in half and damaged."""

import json
from pathlib import Path

import numpy as np
import pytest
from torch.utils.tensorboard import SummaryWriter
from typed_commands import Terminal

from drumline.display import monitor_files

EPISODES = [(10.0, 10, 1.0), (20.0, 20, 2.0), (60.0, 60, 4.0)]


def monitored(
    name: str,
    episodes=EPISODES,
    *,
    env_id: str | None = "CartPole-v1",
    start: float = 1_700_000_000.0,
) -> Path:
    """Write a file as Stable-Baselines3 2.9's Monitor does."""
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    comment = json.dumps({"t_start": start, "env_id": env_id})
    rows = [f"{episode_return},{length},{t}\n" for episode_return, length, t in episodes]
    path.write_text(f"#{comment}\nr,l,t\n" + "".join(rows))
    return path


def cleanrl(name: str, returns: list[float], *, settings: dict[str, object] | None = None) -> Path:
    """Write a folder by the calls that CleanRL's scripts make."""
    with SummaryWriter(f"runs/{name}") as writer:
        if settings is not None:
            rows = "\n".join(f"|{key}|{value}|" for key, value in settings.items())
            writer.add_text("hyperparameters", f"|param|value|\n|-|-|\n{rows}")
        for number, value in enumerate(returns, start=1):
            writer.add_scalar("charts/episodic_return", value, 100 * number)
            writer.add_scalar("losses/value_loss", 1.0, 100 * number)
    return Path("runs", name)


def compared(terminal: Terminal, *names: str) -> dict:
    ended = terminal("compare", *names, "--json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def test_environments_of_one_run_are_merged_by_the_ends_of_their_episodes(terminal: Terminal):
    monitored("zoo/ppo/CartPole-v1_1/0.monitor.csv")
    monitored("zoo/ppo/CartPole-v1_1/1.monitor.csv", [(30.0, 30, 2.5)], start=1_700_000_000.25)
    monitored("zoo/ppo/CartPole-v1_2/0.monitor.csv", [(90.0, 90, 3.0)])
    answer = compared(terminal, "zoo/ppo/CartPole-v1_1", "zoo/ppo/CartPole-v1_2")
    (group,) = answer["groups"]
    assert (group["group"], group["runs"]) == ("stable-baselines3 ppo CartPole-v1", 2)
    assert group["final"]["iqm"] == pytest.approx((30 + 90) / 2)  # the first run: 10, 20, 30, 60
    assert answer["env_steps"] == 90
    # After 10, 30, 60 and 120 env steps the first run's means are 10, 15, 20 and 30.
    assert group["at_equal_env_steps"]["iqm"] == pytest.approx((20 + 90) / 2)
    assert answer["wall_seconds"] == pytest.approx(3.0)


def test_a_run_that_went_on_has_its_sessions_one_after_the_other(terminal: Terminal):
    """Appended episodes have a clock that begins anew, in the file of each environment."""
    for index, returns in ((0, 10.0), (1, 20.0)):
        first = [(returns, 50, t) for t in (40.0 + index, 100.0 + index)]
        later = [(500.0, 50, t) for t in (45.0 + index, 90.0 + index)]
        monitored(f"ppo_1/{index}.monitor.csv", [*first, *later])
    run = monitor_files.read(Path("ppo_1"), monitor_files.files_at(Path("ppo_1"))).curve
    assert run.wall_seconds.tolist() == [40.0, 41.0, 100.0, 101.0, 145.0, 147.0, 190.0, 192.0]
    assert run.episode_return_mean.tolist()[:4] == [10.0, 15.0, pytest.approx(40 / 3), 15.0]
    assert np.all(np.diff(run.episode_return_mean[3:]) > 0)


def test_folders_with_a_value_at_their_end_are_different_settings(terminal: Terminal):
    for name in ("lr_0.001", "lr_0.01", "lr-1e-3", "lr-1e-4"):
        monitored(f"{name}/monitor.csv")
    groups = compared(terminal, "lr_0.001", "lr_0.01", "lr-1e-3", "lr-1e-4")["groups"]
    assert [group["runs"] for group in groups] == [1, 1, 1, 1]


def test_a_run_that_is_named_twice_counts_once(terminal: Terminal):
    monitored("sb/ppo/CartPole-v1_1/0.monitor.csv")
    path = Path("sb/ppo/CartPole-v1_1")
    (group,) = compared(terminal, str(path), f"./{path}", str(path.resolve()))["groups"]
    assert group["runs"] == 1
    assert group["final"] == {"runs": 1, "iqm": 30.0, "low": None, "high": None}


def test_a_monitor_file_alone_and_one_without_an_environments_name(terminal: Terminal):
    path = monitored("a2c_3/monitor.csv", env_id=None)
    (group,) = compared(terminal, str(path))["groups"]
    assert group["group"] == "stable-baselines3 a2c unknown environment"


def test_evaluations_of_stable_baselines_are_compared_where_all_runs_have_them(terminal: Terminal):
    for seed in (1, 2):
        monitored(f"ppo_{seed}/monitor.csv")
        np.savez(
            f"ppo_{seed}/evaluations.npz",
            timesteps=np.array([40, 90]),
            results=np.array([[1.0, 3.0], [100.0 * seed, 100.0 * seed]]),
            ep_lengths=np.ones((2, 2), int),
        )
    answer = compared(terminal, "ppo_1", "ppo_2")
    assert answer["compared"] == answer["final_of"] == "evaluation"
    assert answer["groups"][0]["final"]["iqm"] == pytest.approx(150.0)


def test_cleanrl_is_named_by_its_table_of_settings(terminal: Terminal):
    settings = {"exp_name": "ppo", "env_id": "Pong-v5", "seed": 1, "num_steps": 128, "track": False}
    cleanrl("x__ppo__1__1700000000", [1.0, 3.0], settings=settings)
    cleanrl("x__ppo__2__1700000001", [5.0, 7.0], settings={**settings, "seed": 2})
    cleanrl("x__ppo__1__1700000002", [0.0], settings={**settings, "num_steps": 64})
    names = [str(path) for path in sorted(Path("runs").iterdir())]
    groups = {group["group"]: group for group in compared(terminal, *names)["groups"]}
    assert set(groups) == {"cleanrl ppo Pong-v5 num_steps=128", "cleanrl ppo Pong-v5 num_steps=64"}
    assert groups["cleanrl ppo Pong-v5 num_steps=128"]["final"]["iqm"] == pytest.approx(4.0)


def test_a_setting_that_one_group_lacks_is_in_the_names_of_both(terminal: Terminal):
    settings = {"exp_name": "ppo", "env_id": "Pong-v5", "seed": 1}
    one = cleanrl("x__ppo__1__1", [1.0], settings={**settings, "num_steps": 128})
    other = cleanrl("x__ppo__1__2", [5.0], settings=settings)
    names = {group["group"] for group in compared(terminal, str(one), str(other))["groups"]}
    assert names == {"cleanrl ppo Pong-v5 num_steps=128", "cleanrl ppo Pong-v5 num_steps=None"}


def test_cleanrl_without_settings_is_named_by_its_folder(terminal: Terminal):
    path = cleanrl("CartPole-v1__dqn__1__1700000000", [1.0])
    assert compared(terminal, str(path))["groups"][0]["group"] == "cleanrl dqn CartPole-v1"


def test_a_point_is_the_mean_of_the_latest_hundred_episodes(terminal: Terminal):
    path = cleanrl("CartPole-v1__dqn__1__1", [1000.0] * 50 + [7.0] * 100)
    assert compared(terminal, str(path))["groups"][0]["final"]["iqm"] == pytest.approx(7.0)


def test_logs_that_were_cut_in_half_are_compared_up_to_there(terminal: Terminal):
    monitor = monitored("ppo_1/monitor.csv")
    monitor.write_bytes(monitor.read_bytes()[:-3])  # in the middle of the last row
    folder = cleanrl("CartPole-v1__dqn__1__1", [2.0, 4.0, 90.0])
    (events,) = folder.iterdir()
    events.write_bytes(events.read_bytes()[:-100])  # in the last episode's record
    groups = compared(terminal, "ppo_1", str(folder))["groups"]
    assert [group["final"]["iqm"] for group in groups] == pytest.approx([15.0, 3.0])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "ends before its first episode"),
        ('#{"t_start": 1.0, "env', "ends before its first episode"),
        ('#{"t_start": 1.0, "env_id": "A"}\nr,l,t\n', "no ended episode yet"),
        ("r,l,t\n1,2,3\n", "its first line is no comment"),
        ('#{"env_id": "A"}\nr,l,t\n1,2,3\n', "is no monitor file of Stable-Baselines3: 't_start'"),
        ('#{"t_start": NaN}\nr,l,t\n1,2,3\n', "t_start is not finite"),
        ('#{"t_start": 1}\nr,t\n1,2\n', "is no monitor file of Stable-Baselines3: 'l'"),
        ('#{"t_start": 1}\nr,l,t\n1,2\n', "line 3: 2 cells instead of 3"),
        ('#{"t_start": 1}\nr,l,t\n1,-2,3\n', "line 3: a length or a time that is none"),
        ('#{"t_start": 1}\nr,l,t\none,2,3\n', "line 3: could not convert"),
    ],
)
def test_a_damaged_monitor_file_is_one_sentence(terminal: Terminal, text: str, words: str):
    Path("ppo").mkdir()
    Path("ppo/monitor.csv").write_text(text)
    ended = terminal("compare", "ppo")
    assert ended.code == 2
    assert words in ended.err
    assert ended.err.count("\n") == 1
    assert not Path("compare.png").exists()


def test_damaged_evaluations_are_one_sentence(terminal: Terminal):
    monitored("ppo/monitor.csv")
    np.savez("ppo/evaluations.npz", timesteps=np.arange(3), results=np.ones((2, 2)))
    assert "do not fit; remove it" in terminal("compare", "ppo").err
    np.savez("ppo/evaluations.npz", timesteps=np.arange(1), results=np.array([object()]))
    ended = terminal("compare", "ppo")  # an array of objects would run code
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "evaluations.npz is damaged" in ended.err
    Path("ppo/evaluations.npz").write_bytes(b"PK\x03\x04 and no more")
    assert "evaluations.npz is damaged" in terminal("compare", "ppo").err


def test_damaged_event_files_are_one_sentence(terminal: Terminal):
    folder = cleanrl("CartPole-v1__dqn__1__1", [2.0, 4.0])
    (events,) = folder.iterdir()
    data = events.read_bytes()
    events.write_bytes(data[:3] + b"\xff" + data[4:])  # a length of many terabytes
    ended = terminal("compare", str(folder))
    assert ended.code == 2
    assert "a record's length has a wrong checksum" in ended.err


def test_event_files_without_cleanrls_curve_are_refused_by_its_name(terminal: Terminal):
    with SummaryWriter("other") as writer:
        writer.add_scalar("reward", 1.0, 1)
    ended = terminal("compare", "other")
    assert ended.code == 2
    assert "has no charts/episodic_return" in ended.err
