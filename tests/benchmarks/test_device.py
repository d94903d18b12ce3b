"""The device benchmark refuses a machine without a GPU, and divides by the bound of its round."""

from pathlib import Path
from typing import Any

import pytest
from benchmark_scripts import load_script

from drumline.functional import torch_devices


@pytest.fixture(scope="module")
def script() -> Any:
    return load_script("throughput", "device")


def test_a_machine_without_a_gpu_is_refused_with_a_sentence(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(torch_devices, "device_count", lambda: 0)
    monkeypatch.setattr("sys.argv", ["device.py", "--out", str(tmp_path / "table.csv")])
    with pytest.raises(SystemExit, match=r"^nothing can be measured here: --device cuda: torch"):
        script.main()
    assert list(tmp_path.iterdir()) == []


def test_ratios_are_of_each_round_and_absent_without_a_plain_loop(
    script: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.argv", [script.__file__])  # the command that the row names
    rounds = [{"bound": 10.0, "speed": 5.0}, {"bound": 20.0, "speed": 16.0}]
    row = script.row("football ppo, hts", "cpu", {"inference_rows": 16}, rounds)
    assert (row["of_bound_min"], row["of_bound_max"]) == ("0.500", "0.800")
    assert (row["of_bound_median"], row["of_plain_median"]) == ("0.650", "")
    faster = [{**one, "plain": one["speed"] / 2} for one in rounds]
    assert script.row("Pong-v5 ppo, hts", "cpu", {}, faster)["of_plain_median"] == "2.000"
    assert row["device"] == "cpu"
    assert row["inference_rows"] == 16


def test_a_run_of_td3_goes_on_after_its_random_steps(script: Any):
    config = {"steps_per_update": 100, "random_steps": 5000}
    assert script.steps_of("td3", config, bound=50.0, seconds=10.0) == 5800
    config = {"num_envs": 4, "alpha": 8}
    assert script.steps_of("hts", config, bound=50.0, seconds=10.0) == 500


def test_another_layout_shares_the_parts_and_the_plain_loop_of_its_round(
    script: Any, monkeypatch: pytest.MonkeyPatch
):
    asked: list[str] = []

    def parts(*arguments: Any) -> dict[str, float]:
        asked.append("parts")
        return {"environment": 30.0, "bound": 10.0}

    def whole(case: list[str], steps: int, layout: list[str], *, method: str) -> dict[str, float]:
        asked.append(" ".join([method, *layout]))
        return {"speed": 8.0 if layout else 6.0}

    def answered(*words: str) -> str:
        asked.append("plain")
        return "3.0"

    for replacement in (parts, whole, answered):
        monkeypatch.setattr(script, replacement.__name__, replacement)
    beside: dict[str, dict[str, float]] = {}
    config = {"num_envs": 4, "alpha": 8}
    names = ["Pong-v5 ppo, hts", "Pong-v5 ppo, hts, 2 actors", "football ppo, hts"]
    found = [script.one_round(name, "cpu", config, 1.0, beside) for name in names]
    assert asked == ["parts", "hts", "plain", "hts --actors=2", "parts", "hts"]
    assert [one["speed"] for one in found] == [6.0, 8.0, 6.0]
    assert [one.get("plain") for one in found] == [3.0, 3.0, None]


def test_the_plain_loop_of_td3_learns_from_steps_of_its_environment():
    loop = load_script("throughput", "plain_td3_loop")
    config = {
        "env": "Pendulum-v1",
        "hidden": [8],
        "threads": 1,
        "learning_rate": 1e-3,
        "polyak": 0.01,
        "replay_size": 200,
        "random_steps": 20,
        "exploration_noise": 0.1,
        "batch_size": 16,
        "discount": 0.9,
        "policy_delay": 2,
    }
    assert loop.run(config, 0.05) > 0.0
