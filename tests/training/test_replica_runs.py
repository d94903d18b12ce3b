"""Runs with `--parameters replicas`, on nodes in threads: the bytes of one process."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from campaigns import FAULTS, cases
from runtime.cluster.thread_nodes import ThreadNodes
from whole_runs import folder_for, lasting_bytes

from drumline.api.foreign_code import TRUSTED
from drumline.api.opened_runs import silent
from drumline.api.run import resume, train
from drumline.recipes.ars import ARS
from drumline.recipes.es import ES
from drumline.runs.checkpoint import read_checkpoint
from drumline.runs.folder import RunFolder
from drumline.runtime.cluster.node_messages import Advance, Heard, Publish, Seed, Write
from drumline.training.layout import SearchLayout
from drumline.training.run_request import RunRequest

SMALL = ES(
    env="InvertedPendulum-v5",
    total_steps=900,
    population_size=8,
    std=0.1,
    obs_stat_probability=0.5,
    noise_table_size=1 << 16,
    hidden=(8,),
    evaluate_every=3,
    evaluate_episodes=2,
)
RUNS: dict[str, ES | ARS] = {
    "es": SMALL,
    "es with blocks and caps": replace(SMALL, generation_env_steps=150, episode_cap="mean:2"),
    "es over an objective": ES(
        objective="objectives:noisy_sphere",
        dimensions=6,
        total_steps=400,
        noise_table_size=1 << 12,
        evaluate_every=3,
        evaluate_episodes=2,
    ),
    "es with noise of low rank": replace(SMALL, noise="low-rank:1", hidden=(9,), total_steps=600),
    "es with a reference batch": replace(SMALL, normalization="virtual-batch", total_steps=600),
    "ars": ARS(
        env="InvertedPendulum-v5",
        total_steps=600,
        noise_table_size=1 << 16,
        evaluate_every=3,
        evaluate_episodes=2,
    ),
}
REPLICAS = SearchLayout(pool="ray", parameters="replicas", tensorboard=False)


class Expected(dict[str, dict[str, bytes]]):
    """Lasting bytes of an inline run of each method, made when they are first asked for."""

    def __init__(self, out: Path):
        super().__init__()
        self.out = out

    def __missing__(self, name: str) -> dict[str, bytes]:
        layout = SearchLayout(pool="inline", tensorboard=False)
        self[name] = lasting_bytes(train(RUNS[name], layout=layout, out=self.out / name).folder)
        return self[name]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Expected:
    return Expected(tmp_path_factory.mktemp("expected"))


class Disturbed(ThreadNodes):
    """Nodes to which `event` happens once, after the third update of the first replica."""

    def __init__(self, event: Callable[["Disturbed"], None]):
        super().__init__(1, 1)
        self.waiting = True
        self._event = event
        self._begun: set[int] = set()
        self._held: list[Any] = []

    def wait(self, links: Any, seconds: float) -> Any:
        """Return news; the second node's not before a replica of the first one has begun.

        A host that starts late, or anew, would find that the other one has ended the run alone.
        """
        found = super().wait(links, seconds)
        first = next(link for link in reversed(self.links) if link.node.id == "node-0")
        said = [news for link, news in found if link is first and isinstance(news, Heard)]
        versions = [version for news in said for version, _ in news.replicas]
        self._begun |= {id(first)} if versions else set()
        if self.waiting and max(versions, default=0) >= 3:
            self.waiting = False
            self._event(self)
        self._held += [pair for pair in found if pair[0].node.id != "node-0"]
        others: list[Any] = []
        if id(first) in self._begun:
            others, self._held = self._held, []
        return [pair for pair in found if pair[0].node.id == "node-0"] + others


def run_over(
    nodes: ThreadNodes, out: Path, config: ES | ARS, layout: SearchLayout = REPLICAS
) -> RunFolder:
    folder = folder_for(out, config, layout)
    request = RunRequest(folder, layout, silent(), nodes=nodes)
    config.build(layout).opened(request).run()
    return folder


def kinds(nodes: ThreadNodes) -> set[type]:
    return {type(command) for link in nodes.links for command in link.told}


def test_a_reference_batch_that_is_sent_has_the_bytes_of_one_process(
    tmp_path: Path, expected: Expected
):
    """Workers of a node build their policies before its memory holds the batch."""
    name, nodes = "es with a reference batch", ThreadNodes(1, 1)
    sent = SearchLayout(pool="ray", tensorboard=False)
    assert sent.parameters == "broadcast"
    assert lasting_bytes(run_over(nodes, tmp_path / "run", RUNS[name], sent)) == expected[name]
    assert Write in kinds(nodes)


@pytest.mark.parametrize(
    "name", cases(RUNS, quick=["es", "es over an objective", "es with a reference batch"])
)
def test_replicas_have_the_bytes_of_one_process(tmp_path: Path, expected: Expected, name: str):
    nodes = ThreadNodes(1, 1)
    folder = run_over(nodes, tmp_path / "run", RUNS[name])
    assert lasting_bytes(folder) == expected[name]
    assert Advance in kinds(nodes)
    assert not {Publish, Write} & kinds(nodes), "neither parameters nor the noise table are sent"


def test_parameters_that_are_sent_have_the_same_bytes(tmp_path: Path, expected: Expected):
    nodes = ThreadNodes(1, 1)
    layout = replace(REPLICAS, parameters="broadcast")
    folder = run_over(nodes, tmp_path / "run", SMALL, layout)
    assert lasting_bytes(folder) == expected["es"]
    assert {Publish, Write} < kinds(nodes)
    assert Advance not in kinds(nodes)


def flip(nodes: ThreadNodes) -> None:
    """Change one bit of the first node's parameters."""
    replica: Any = nodes.links[0].host._commands.replica
    replica._strategy._search.parameters.view(np.uint32)[5] ^= 1 << 20


def lose(nodes: ThreadNodes) -> None:
    nodes.lose(nodes.nodes[1])


@pytest.mark.parametrize("event", cases([flip, lose], quick=[flip]))
def test_a_replica_that_drifts_or_is_lost_changes_no_byte(
    tmp_path: Path, expected: Expected, event: Callable[[ThreadNodes], None]
):
    nodes = Disturbed(event)
    folder = run_over(nodes, tmp_path / "run", SMALL)
    assert not nodes.waiting
    assert lasting_bytes(folder) == expected["es"]
    if event is flip:
        seeds = [c for link in nodes.links for c in link.told if isinstance(c, Seed)]
        assert len(seeds) == 3


def test_bytes_of_every_update_and_node_are_in_the_run_folder(tmp_path: Path, expected: Expected):
    config = replace(SMALL, obs_stat_probability=1.0)
    folder = run_over(ThreadNodes(1, 1), tmp_path / "run", config)
    header, *lines = (folder.path / "nodes.csv").read_text().splitlines()
    assert header == (
        "update,node,tasks_bytes,results_bytes,moments_bytes,parameters_bytes,shared_bytes,"
        "answers_bytes"
    )
    rows = [line.split(",") for line in lines]
    updates = (folder.path / "metrics.csv").read_text().count("\n") - 1
    assert {int(row[0]) for row in rows} == set(range(1, updates + 1))
    assert {row[1] for row in rows} == {"10.0.0.0", "10.0.0.1"}
    told = [row for row in rows if int(row[0]) > 2 and row[5] == "0"]
    assert {(row[3], row[4]) for row in told} == {(str(36 + 24 * 8), str(8 * (12 + 16 * 4)))}
    assert all(row[6] == "0" for row in rows)


def test_a_run_goes_on_with_replicas_from_a_checkpoint(tmp_path: Path, expected: Expected):
    inline = SearchLayout(pool="inline", tensorboard=False)
    first = replace(SMALL, total_steps=400)
    folder = train(first, layout=inline, out=tmp_path / "run").folder
    checkpoint = read_checkpoint(folder)
    assert checkpoint.update > 0
    nodes = ThreadNodes(1, 1)
    request = RunRequest(folder, REPLICAS, silent(), resumed_from=checkpoint, nodes=nodes)
    SMALL.build(REPLICAS).opened(request).run()
    assert Seed in kinds(nodes)
    assert Publish not in kinds(nodes)
    assert lasting_bytes(folder) == expected["es"]


@FAULTS
def test_a_run_with_replicas_goes_on_without_them(tmp_path: Path, expected: Expected):
    inline = SearchLayout(pool="inline", tensorboard=False)
    folder = run_over(ThreadNodes(1, 1), tmp_path / "run", replace(SMALL, total_steps=400))
    again = resume(folder, inline, total_steps=SMALL.total_steps, trust=TRUSTED)
    assert lasting_bytes(again.folder) == expected["es"]


def test_replicas_without_a_cluster_are_refused():
    with pytest.raises(ValueError, match="--parameters replicas goes with --pool ray"):
        SearchLayout(parameters="replicas")


def test_a_search_whose_update_needs_more_is_refused(tmp_path: Path):
    recipe = replace(SMALL.build(REPLICAS), replica=None)
    request = RunRequest(folder_for(tmp_path / "run", SMALL, REPLICAS), REPLICAS, silent())
    with pytest.raises(ValueError, match="--parameters replicas needs an update that follows"):
        recipe.opened(request)
