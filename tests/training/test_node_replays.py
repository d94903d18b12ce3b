"""Rows of a replay over nodes: an episode is sent to every node but the one that made it."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from campaigns import FAULTS
from runtime.cluster.thread_nodes import ThreadNodes
from whole_runs import SMALL_CEM_RL, folder_for, lasting_bytes

from drumline.api.opened_runs import silent
from drumline.api.run import train
from drumline.recipes.aes import AES
from drumline.recipes.methods import method_of
from drumline.runtime.cluster import kept_results
from drumline.runtime.cluster.node_messages import Copy, Node, Submit, Write
from drumline.training.run_request import RunRequest

pytestmark = pytest.mark.usefixtures("unchecked_shapes")
CONFIGS: dict[str, Any] = {
    "aes": AES(
        env="InvertedPendulum-v5",
        hidden=(8,),
        evaluate_every=5,
        evaluate_episodes=2,
        total_steps=250,
        concurrency=3,
        fitness_range=5.0,
        warmup_steps=40,
        replay_size=120,
        batch_size=16,
        critic_batches=30,
    ),
    "cem-rl": SMALL_CEM_RL,
}
ROW_BYTES, OWN_BYTES = 33, 24
"""Bytes of a transition in all arrays, and in those that come as the worker made them."""


class Losing(ThreadNodes):
    """Nodes of which the first that has had two leases is lost, and another one joins."""

    lost = False

    def wait(self, links: Any, seconds: float) -> Any:
        busy = [link for link in self.links if sum(isinstance(c, Submit) for c in link.told) > 1]
        if busy and not self.lost:
            self.lost = True
            self.lose(busy[0].node)
            self.nodes.append(Node("next", "10.0.0.9", 1))
        return super().wait(links, seconds)


def run_over(nodes: ThreadNodes, out: Path, config: Any) -> Any:
    layout = method_of(config).layout(pool="ray", tensorboard=False)
    folder = folder_for(out, config, layout)
    config.build(layout).opened(RunRequest(folder, layout, silent(), nodes=nodes)).run()
    return folder


def inline(out: Path, config: Any) -> dict[str, bytes]:
    layout = method_of(config).layout(pool="inline", tensorboard=False)
    return lasting_bytes(train(config, layout=layout, out=out).folder)


@pytest.fixture(autouse=True)
def _tiny_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Episodes are short here: look for every row."""
    monkeypatch.setattr(kept_results, "LEAST_BYTES", 1)


def rows_of(nodes: ThreadNodes, command: type[Any]) -> Counter[str]:
    """Return the rows of observations in all commands of a kind, by node."""
    rows: Counter[str] = Counter()
    for link in nodes.links:
        told = [c for c in link.told if isinstance(c, command)]
        named = [c for c in told if c.name == "replay/observations"]
        rows[link.node.id] += sum(c.last - c.first if isinstance(c, Copy) else 1 for c in named)
    return rows


@FAULTS
def test_an_episode_is_sent_once_to_each_node_that_did_not_make_it(tmp_path: Path):
    config, nodes = CONFIGS["aes"], ThreadNodes(1, 1)
    folder = run_over(nodes, tmp_path / "run", config)
    assert lasting_bytes(folder) == inline(tmp_path / "inline", config)
    copied = rows_of(nodes, Copy)
    made = sum(copied.values())
    assert len(copied) == 2
    assert made >= 200, "nodes copy what they have made themselves"
    assert rows_of(nodes, Write)["node-0"] > 0
    header, *lines = (folder.path / "nodes.csv").read_text().splitlines()
    rows = [dict(zip(header.split(","), line.split(","), strict=True)) for line in lines]
    # The first update's rows have the empty ring, too.
    sent = sum(int(row["shared_bytes"]) for row in rows if int(row["update"]) > 1)
    *_, newest = (folder.path / "metrics.csv").read_text().splitlines()
    all_rows = max(made, int(newest.split(",")[1]))
    most = (2 * ROW_BYTES - OWN_BYTES) * made + 2 * ROW_BYTES * (all_rows - made)
    assert OWN_BYTES * made // 2 <= sent <= most


@FAULTS
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_any_number_of_nodes_of_which_one_is_lost_changes_no_byte(
    tmp_path: Path, name: str, count: int
):
    nodes = Losing(*[1] * count)
    folder = run_over(nodes, tmp_path / "run", CONFIGS[name])
    assert lasting_bytes(folder) == inline(tmp_path / "inline", CONFIGS[name])
    assert nodes.lost
    assert sum(rows_of(nodes, Copy).values()) > 0
