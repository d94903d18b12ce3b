"""Against a peer: a run is there once its rows of every wanted budget are."""

import csv
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmark_scripts import load_script

CASE = "CartPole-v1 a2c"


class CountingPeer:
    """A peer and our side at once: every run says the return that is its number."""

    def __init__(self):
        self.runs: list[tuple[str, int]] = []

    def versions(self) -> str:
        return "none"

    def returns(self, case: Any, who: str) -> list[float]:
        self.runs.append((who, case.budget_count))
        return [float(len(self.runs))] * case.budget_count


def test_a_run_that_ended_at_an_earlier_budget_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    peers, peer = load_script("learning", "peers"), CountingPeer()
    monkeypatch.setattr(peers, "Peer", lambda python: peer)
    monkeypatch.setattr(peers, "our_run", lambda case, who, seed: peer.returns(case, who))
    monkeypatch.setattr(peers, "peer_run", lambda _, case, seed: peer.returns(case, "peer"))
    out = tmp_path / "peers.csv"

    def table(budgets: int) -> list[tuple[str, str, str]]:
        words = ["--peer-python=python", f"--out={out}", "--cases", CASE, "--seeds", "0"]
        monkeypatch.setattr(sys, "argv", [peers.__file__, *words, f"--budgets={budgets}"])
        peers.main()
        rows = csv.DictReader(out.read_text().splitlines())
        return [(row["who"], row["env_steps"], row["return_mean"]) for row in rows]

    def of_runs(first: str, second: str, *budgets: str) -> list[tuple[str, str, str]]:
        runs = (("stable-baselines3", first), ("a2c", second))
        return [(who, budget, mean) for who, mean in runs for budget in budgets]

    assert table(1) == of_runs("1.00", "2.00", "30000")
    longer = of_runs("3.00", "4.00", "30000", "60000")
    assert table(2) == longer
    assert table(2) == table(1) == longer
    assert peer.runs == [("peer", 1), ("a2c", 1), ("peer", 2), ("a2c", 2)]
