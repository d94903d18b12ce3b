"""Configs with an objective: what they name, and what is refused in one sentence."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import objectives
import pytest
from torch_objectives import Regressor, fit

from drumline.api.foreign_code import refuse_code_of_main
from drumline.api.run import train
from drumline.api.run_document import differences_here
from drumline.recipes.es import ES
from drumline.recipes.objectives import searched_objective
from drumline.recipes.searched_policy import uses_table
from drumline.training.layout import SearchLayout

SPHERE = "objectives:noisy_sphere"


def test_functions_and_classes_are_recorded_by_their_place():
    config = ES(objective=objectives.noisy_sphere, initial=objectives.start)
    assert (config.objective, config.initial) == (SPHERE, "objectives:start")
    config = ES(objective=fit, policy=Regressor)
    assert (config.objective, config.policy) == (
        "torch_objectives:fit",
        "torch_objectives:Regressor",
    )


def test_the_first_parameters_follow_the_runs_seed():
    found = [
        searched_objective(ES(objective=SPHERE, initial="objectives:start", seed=s))[1]
        for s in (1, 1, 2)
    ]
    assert found[0].dtype == np.float32
    assert found[0].tobytes() == found[1].tobytes() != found[2].tobytes()
    objective, zeros = searched_objective(ES(objective=SPHERE, dimensions=4))
    assert zeros.tolist() == [0.0] * 4
    assert objective.dimensions == 4


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "give an environment or --objective .*, one of both; got neither"),
        ({"env": "CartPole-v1", "objective": SPHERE}, "one of both; got 'CartPole-v1' and"),
        ({"env": "CartPole-v1", "dimensions": 3}, "--dimensions 3 goes with --objective"),
        ({"env": "CartPole-v1", "seeds_per_call": 3}, "--seeds-per-call 3 goes with --objective"),
        ({"objective": "sphere"}, "--objective 'sphere' is no place: write module:function"),
        ({"objective": lambda p, s: 0.0}, "has no name by which a worker could import it"),
        ({"objective": SPHERE, "policy": "linear"}, "--policy 'linear' goes with an environment"),
        ({"objective": SPHERE, "hidden": (3, 4)}, "--hidden 3 4 goes with an environment"),
        ({"objective": SPHERE, "normalize": False}, "--no-normalize goes with an environment"),
        ({"objective": SPHERE, "episode_cap": "mean:2"}, "--episode-cap mean:2 goes with"),
        ({"objective": SPHERE, "action_noise_std": 0.0}, "--action-noise-std 0.0 goes with"),
        ({"objective": SPHERE, "shaping": "sign-rank"}, "sign-rank ranks rewards"),
        ({"objective": SPHERE, "dimensions": -1}, "--dimensions must be 1 or more, got -1"),
        ({"objective": SPHERE, "seeds_per_call": 0}, "--seeds-per-call must be 1 or more, got 0"),
        (
            {"objective": SPHERE, "dimensions": 3, "initial": "objectives:start"},
            "--dimensions 3 and --initial objectives:start contradict each other",
        ),
        (
            {"objective": SPHERE, "dimensions": 3, "policy": "torch_objectives:Regressor"},
            "--policy torch_objectives:Regressor and --dimensions 3 contradict each other",
        ),
        (
            {"objective": SPHERE, "dimensions": 3, "working_precision": "bf16"},
            "--working-precision bf16 goes with a torch module: give --policy",
        ),
        (
            {"objective": SPHERE, "policy": "torch_objectives:Regressor", "trainable": "("},
            r"--trainable '\(' is no regular expression",
        ),
        ({"env": "CartPole-v1", "trainable": "a"}, "--trainable a goes with --objective"),
    ],
)
def test_a_field_that_makes_no_sense_is_one_sentence(fields: dict[str, Any], said: str):
    with pytest.raises(ValueError, match=said) as refusal:
        ES(**fields)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "needs its number of parameters: give --dimensions N"),
        ({"initial": "objectives:square_start"}, r"returned shape \(2, 3\): return one vector"),
        ({"initial": "objectives:infinite_start"}, "returned numbers that are not finite"),
        ({"initial": "objectives:complex_start"}, "returned complex numbers: return one vector"),
        ({"initial": "objectives:nothing"}, "raised TypeError"),
        ({"initial": "objectives:lost"}, "--initial 'objectives:lost' cannot be imported"),
        ({"dimensions": 3, "objective": "objectives:lost"}, "--objective 'objectives:lost' cannot"),
        ({"policy": "torch_objectives:Tied"}, "share storage"),
    ],
)
def test_what_the_users_code_gives_is_checked_before_there_is_a_run(
    fields: dict[str, Any], said: str
):
    with pytest.raises(ValueError, match=said):
        ES(**{"objective": SPHERE, **fields}).build(SearchLayout(pool="inline"))


@pytest.mark.parametrize("field", ["policy", "initial", "objective"])
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def f(:\n", r"SyntaxError: invalid syntax .*faulty\.py, line 1"),
        ("import sys\nsys.exit(3)\n", r"SystemExit: 3 \(.*faulty\.py, line 2"),
        ("import no_such_thing\n", "cannot be imported .No module named 'no_such_thing'"),
    ],
)
def test_code_that_cannot_be_imported_is_one_sentence(
    field: str, code: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "faulty.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "faulty", raising=False)
    fields = {"dimensions": 3} if field == "objective" else {}
    with pytest.raises(ValueError, match=said) as refused:
        ES(**{"objective": SPHERE, **fields, field: "faulty:f"}).build(SearchLayout(pool="inline"))
    assert "\n" not in str(refused.value)


def test_a_module_that_leaves_python_is_one_sentence():
    config = ES(objective=SPHERE, policy="torch_objectives:Leaving")
    with pytest.raises(ValueError, match="torch_objectives:Leaving: making the module raised Sys"):
        config.build(SearchLayout(pool="inline"))


@pytest.mark.parametrize("field", ["policy", "initial", "objective"])
def test_a_path_of_a_file_is_no_place(field: str):
    fields = {"dimensions": 3} if field == "objective" else {}
    with pytest.raises(ValueError, match=r"without / and \.py"):
        ES(**{"objective": SPHERE, **fields, field: "./faulty.py:f"}).build(
            SearchLayout(pool="inline")
        )


def test_a_table_of_the_same_slices_is_refused():
    config = ES(objective=SPHERE, dimensions=2140, noise="table", noise_table_size=2140)
    with pytest.raises(ValueError, match="same slices of the table"):
        config.build(SearchLayout(pool="inline"))
    replace(config, noise_table_size=4684).build(SearchLayout(pool="inline"))


@pytest.mark.parametrize("fraction", [0.9, 0.6, 0.3, 0.0])
def test_blocks_of_another_share_than_that_of_equal_ones_are_refused(fraction: float):
    with pytest.raises(ValueError, match=r"equal blocks\. Give"):
        ES("CartPole-v1", subset="use", subset_fraction=fraction)
    ES("CartPole-v1", subset="use", subset_fraction=0.33)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"working_precision": "fp16"}, "--working-precision must be fp32 or bf16, got 'fp16'"),
        ({"subset": "bogus"}, "--subset must be none, perturb or use, got 'bogus'"),
        ({"evaluate_every": 3.5}, "--evaluate-every must be a whole number, got 3.5"),
        ({"population_size": True}, "--population-size must be .* got True"),
        ({"std": "0.1"}, "--std must be a number, got '0.1'"),
    ],
)
def test_values_of_another_kind_are_refused_in_python_too(
    fields: dict[str, Any], said: str, tmp_path: Path
):
    policy = "torch_objectives:Regressor"
    with pytest.raises(ValueError, match=said):
        train(ES(objective=SPHERE, policy=policy, **fields), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_function_of_a_script_is_for_inline_runs():
    config = ES(objective="__main__:sphere", dimensions=3)
    with pytest.raises(ValueError, match=r"'__main__:sphere' lives in .* workers=.inline."):
        refuse_code_of_main(config, SearchLayout(workers=2))
    refuse_code_of_main(config, SearchLayout(pool="inline"))


def test_noise_comes_from_a_table_up_to_a_size_and_from_counters_above():
    for count, table in ((1 << 24, True), ((1 << 24) + 1, False)):
        assert uses_table(ES(objective=SPHERE, dimensions=count), count) is table
    assert uses_table(ES(objective=SPHERE, dimensions=9, noise="table"), 1 << 25)
    assert not uses_table(ES(objective=SPHERE, dimensions=9, noise="counter"), 9)


def test_a_large_search_records_how_torchs_sums_round(tmp_path: Path):
    sizes = {"small": 1000, "large": 1 << 19}
    documents: dict[str, Any] = {}
    for name, size in sizes.items():
        config = ES(objective="objectives:torch_is_there", dimensions=size, noise="counter")
        config = replace(config, population_size=2, total_steps=2, evaluate_episodes=1)
        run = train(replace(config, promise=False), workers="inline", out=tmp_path / name)
        documents[name] = run.folder.document
    assert "sums" not in documents["small"]["machine"]
    large = documents["large"]
    assert "torch" in large["computed_by"]
    assert large["machine"]["sums"] in ("one rounding a term", "two roundings a term")
    assert differences_here(large) == ""
    other = {**large, "machine": {**large["machine"], "sums": "another"}}
    other["versions"] = {**large["versions"], "torch": "2.6.0+cpu"}
    assert differences_here(other).startswith("torch 2.6.0+cpu there, ")
    assert "; sums another there, " in differences_here(other)
