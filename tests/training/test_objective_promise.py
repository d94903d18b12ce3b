"""The promise for objectives: what must not matter is changed, and bytes are compared."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch
import torch_objectives
from campaigns import SLOW, cases
from doubles import KillAt
from whole_runs import lasting_bytes, run_on

from drumline.api.foreign_code import TRUSTED
from drumline.api.run import resume, train
from drumline.commands.verify import verify_again
from drumline.errors import ImpureEnvironment
from drumline.recipes.aes import AES
from drumline.recipes.ars import ARS
from drumline.recipes.cem import CEM
from drumline.recipes.es import ES
from drumline.recipes.methods import method_of
from drumline.runs.folder import RunError, RunFolder

SMALL = {"seed": 3, "evaluate_every": 4, "evaluate_episodes": 3, "total_steps": 80}
VECTOR = {"objective": "objectives:noisy_sphere", "dimensions": 6}
ASYNCHRONOUS = {**SMALL, "total_steps": 50, "p_desired": 0.0, "concurrency": 3}
IN_BF16 = "es, some of a module in bf16"
CONFIRMED = "aes, confirmed moves"
CMA = "aes, another's strategy and three seeds a call"
SEARCHES: dict[str, Any] = {
    "es": ES(**VECTOR, **SMALL, population_size=8, std=0.1, noise_table_size=1 << 12),
    "es, counter noise, a block of the parameters": ES(
        objective="objectives:global_noise",
        initial="objectives:start",
        **SMALL,
        population_size=8,
        noise="counter",
        subset="perturb",
        subset_fraction=0.5,
    ),
    "es, a torch module": ES(
        objective="torch_objectives:fit",
        policy="torch_objectives:Regressor",
        **SMALL,
        population_size=8,
        std=0.1,
        noise_table_size=1 << 12,
        common_seeds=True,
    ),
    IN_BF16: ES(
        objective="torch_objectives:near_ones",
        policy="torch_objectives:Regressor",
        trainable="weight",
        working_precision="bf16",
        **SMALL,
        population_size=8,
        std=0.1,
        noise_table_size=1 << 12,
    ),
    "es, in a subspace": ES(
        **VECTOR, **SMALL, population_size=8, std=0.1, noise_table_size=1 << 12, subspace=3
    ),
    "es, seven seeds a call": ES(
        objective="objectives:batch_of_seeds",
        dimensions=6,
        seeds_per_call=7,
        **{**SMALL, "total_steps": 560},
        population_size=8,
        noise_table_size=1 << 12,
    ),
    "ars": ARS(
        **VECTOR,
        **SMALL,
        population_size=8,
        top_directions=2,
        std=0.1,
        noise_table_size=1 << 12,
    ),
    "cem": CEM(**VECTOR, **SMALL, population_size=8, elites=4, initial_variance=0.1, damp=0.1),
    "cem, a torch module": CEM(
        objective="torch_objectives:fit",
        policy="torch_objectives:Regressor",
        **SMALL,
        population_size=8,
        elites=4,
    ),
    "aes": AES(**VECTOR, **ASYNCHRONOUS, range_spread=2.0, mean_evaluations=2),
    CONFIRMED: AES(
        **VECTOR,
        **ASYNCHRONOUS,
        mean_rule="confirmed-move",
        variance_rule="one-fifth",
        mean_evaluations=1,
    ),
    "aes, a torch module and a barrier": AES(
        objective="torch_objectives:fit",
        policy="torch_objectives:Regressor",
        **ASYNCHRONOUS,
        strategy="snes",
        schedule="sync",
        mean_evaluations=0,
    ),
    CMA: AES(
        objective="objectives:batch_of_seeds",
        dimensions=6,
        seeds_per_call=3,
        **{**ASYNCHRONOUS, "total_steps": 150},
        strategy="cma",
        mean_evaluations=1,
    ),
}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, bytes]]:
    @cache
    def bytes_of(name: str) -> dict[str, bytes]:
        out = tmp_path_factory.mktemp("expected") / "run"
        return lasting_bytes(train(SEARCHES[name], workers="inline", out=out).folder)

    return bytes_of


KILLED = ["es, a torch module", "cem", "aes", CMA]


@pytest.mark.parametrize(
    "name",
    [
        "es",
        *cases(KILLED, quick=[]),
        *cases(sorted(SEARCHES.keys() - {"es", *KILLED}), quick=[], later=SLOW),
    ],
)
def test_workers_one_of_them_killed_change_no_byte(tmp_path: Path, expected: Any, name: str):
    probe = KillAt("episode-ended", tmp_path / "flag")
    folder = run_on(tmp_path / "run", SEARCHES[name], layout_of(name, 3), probe)
    assert (tmp_path / "flag").exists()
    assert lasting_bytes(folder) == expected(name)


@pytest.mark.parametrize("name", cases(SEARCHES, quick=["ars", CMA, IN_BF16, CONFIRMED]))
def test_a_stop_and_a_resume_change_no_byte_and_verify_agrees(
    tmp_path: Path, expected: Any, name: str
):
    config = SEARCHES[name]
    train(config, workers="inline", out=tmp_path / "run", last_update=5)
    folder = RunFolder.open(tmp_path / "run")
    resume(folder, layout_of(name, 2), trust=TRUSTED)
    assert lasting_bytes(folder) == expected(name)
    inline = type(layout_of(name, 1))(pool="inline")
    done, difference = verify_again(RunFolder.open(folder.path), None, inline, TRUSTED)
    assert done >= 10
    assert difference is None


def layout_of(name: str, workers: int) -> Any:
    return method_of(SEARCHES[name]).layout(workers=workers)


def test_one_value_counts_as_one_env_step(tmp_path: Path):
    run = train(SEARCHES["es, seven seeds a call"], workers="inline", out=tmp_path / "run")
    last = run.metrics[-1]
    assert last["env_steps"] == 560
    assert last["episodes"] == 80
    assert last["env_steps_evaluation"] == 7 * 3 * 2  # after updates 4 and 8; the last comes later


def test_children_of_a_plain_objective_never_import_torch(tmp_path: Path):
    config = replace(SEARCHES["es"], objective="objectives:torch_is_there", total_steps=16)
    run = train(config, workers=2, out=tmp_path / "run")
    assert [row["episode_return_max"] for row in run.metrics] == [0.0, 0.0]


def test_a_value_that_differs_for_the_same_seed_is_found_at_the_first_task(tmp_path: Path):
    config = replace(SEARCHES["es"], objective="objectives:remembers")
    steady = AES(objective="objectives:remembers", dimensions=6, **ASYNCHRONOUS)
    for number, searched in enumerate((config, steady)):
        for workers in ("inline", 2):
            out = tmp_path / f"{number}-{workers}"
            with pytest.raises(ImpureEnvironment, match=r"objectives:remembers, called again"):
                train(searched, workers=workers, out=out)
    free = replace(config, promise=False, total_steps=16)
    run = train(free, workers="inline", out=tmp_path / "free")
    assert run.folder.document["promise"] == "no promise: trained with --no-promise"


def test_the_search_moves_towards_the_target(tmp_path: Path):
    config = replace(SEARCHES["es"], **{**ES.OBJECTIVE, "total_steps": 2400}, population_size=20)
    run = train(config, workers="inline", out=tmp_path / "run")
    assert np.abs(run.parameters() - np.linspace(-1.0, 1.0, 6)).max() < 0.15
    assert run.evaluate(episodes=5).mean == pytest.approx(0.0, abs=0.1)


def test_a_modules_parameters_have_their_names_in_policy_files(tmp_path: Path):
    run = train(SEARCHES[IN_BF16], workers="inline", out=tmp_path / "run")
    named = safetensors.numpy.load_file(run.path / "policy-last.safetensors")
    assert {name: array.shape for name, array in named.items()} == {
        "inner.weight": (4, 8),
        "outer.weight": (1, 4),
    }
    flat = np.concatenate([named["inner.weight"].ravel(), named["outer.weight"].ravel()])
    assert run.parameters().tobytes() == flat.astype(np.float32).tobytes()
    module = run.module()
    assert module.outer.weight.detach().numpy().tobytes() == named["outer.weight"].tobytes()
    assert module.outer.bias.dtype == torch.float32
    assert {n for n, p in module.named_parameters() if p.requires_grad} == set(named)
    again: Any = run.policy.to_torch()
    assert torch.equal(again.inner.weight, module.inner.weight)
    assert run.evaluate(episodes=2).returns == run.evaluate(episodes=2).returns


def test_a_policy_file_that_lacks_a_named_tensor_is_damaged(tmp_path: Path):
    run = train(SEARCHES["es, a torch module"], workers="inline", out=tmp_path / "run")
    path = run.path / "policy-last.safetensors"
    path.write_bytes(path.read_bytes().replace(b'"inner.bias":{', b'"inner.bios":{'))
    with pytest.raises(RunError, match="is damaged"):
        run.parameters()


def test_a_module_with_its_parameters_in_other_places_is_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config = SEARCHES["es, a torch module"]
    layout = method_of(config).layout(pool="inline")
    run = train(replace(config, total_steps=40), layout=layout, out=tmp_path / "run")
    exchanged = torch_objectives.Exchanged
    monkeypatch.setattr(torch_objectives, "Regressor", exchanged)
    for go_on in (
        lambda: resume(run.folder, layout, trust=TRUSTED, total_steps=80),
        lambda: run.module("last"),
    ):
        with pytest.raises(RunError, match=r"outer.weight \[1, 4\] as its number 1, in the place"):
            go_on()
