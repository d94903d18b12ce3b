"""`drumline rebuild`: the parameters of any generation, from what the search was told."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typed_commands import Terminal

from drumline.api.foreign_code import TRUSTED
from drumline.api.run import resume, train
from drumline.commands.rebuild import rebuild
from drumline.recipes.ars import ARS
from drumline.recipes.es import ES
from drumline.recipes.hts import HTS
from drumline.runs.fingerprints import array_hash, read_chain
from drumline.runs.folder import RunError, RunFolder
from drumline.training.layout import SearchLayout

SMALL = ES(
    env="CartPole-v1",
    total_steps=900,
    population_size=8,
    std=0.1,
    obs_stat_probability=0.5,
    noise_table_size=1 << 16,
    hidden=(8,),
    evaluate_every=0,
    evaluate_episodes=1,
)
KEEPING = SearchLayout(pool="inline", keep_scalars=True, tensorboard=False)
SEARCHES = {
    "es": SMALL,
    "es with all of its own": replace(
        SMALL,
        total_steps=1200,
        generation_env_steps=200,
        episode_cap="mean:2",
        subset="perturb",
        shaping="sign-rank",
        learning_rate_decay=0.9,
    ),
    "es in a subspace": replace(SMALL, subspace=9),
    "ars": ARS(
        env="InvertedPendulum-v5",
        total_steps=400,
        population_size=4,
        noise_table_size=1 << 16,
        evaluate_episodes=1,
    ),
}


def keeping(tmp_path: Path, config: ES | ARS = SMALL) -> RunFolder:
    return train(config, layout=KEEPING, out=tmp_path / "run").folder


@pytest.mark.parametrize("name", SEARCHES)
def test_every_generation_can_be_made_again(tmp_path: Path, name: str):
    folder = keeping(tmp_path, SEARCHES[name])
    shutil.rmtree(folder.checkpoints)  # from the initial parameters
    rows = [row.update for row in read_chain(folder.fingerprints_csv).rows()]
    assert len(rows) > 3
    for generation in rows:
        again = rebuild(folder, generation, TRUSTED)
        assert (again.generation, again.compared) == (generation, True)
    assert rebuild(folder, trust=TRUSTED).generation == max(rows)
    assert not rebuild(folder, 0, TRUSTED).compared


def test_a_kept_checkpoint_saves_the_generations_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = keeping(tmp_path)
    (last,) = [int(p.name) for p in folder.checkpoints.glob("[1-9]*")]
    monkeypatch.setattr("drumline.training.told_generations.results_of", pytest.fail)
    assert rebuild(folder, last, TRUSTED).compared


def test_a_resumed_run_goes_on_with_its_log(tmp_path: Path):
    folder = keeping(tmp_path, replace(SMALL, total_steps=400))
    whole = keeping(tmp_path / "whole").path / "scalars" / "000000"
    with open(folder.path / "scalars" / "000000", "ab") as file:
        file.write(b"written after the last checkpoint")
    resume(folder, SearchLayout(pool="inline"), trust=TRUSTED, total_steps=SMALL.total_steps)
    assert (folder.path / "scalars" / "000000").read_bytes() == whole.read_bytes()
    shutil.rmtree(folder.checkpoints)
    assert rebuild(folder, trust=TRUSTED).compared


def test_a_run_that_stopped_before_its_first_checkpoint_keeps_its_log(tmp_path: Path):
    whole = keeping(tmp_path / "whole").path / "scalars" / "000000"
    folder = keeping(tmp_path)
    for path in folder.checkpoints.glob("[1-9]*"):
        shutil.rmtree(path)
    resume(folder, SearchLayout(pool="inline"), trust=TRUSTED)
    assert (folder.path / "scalars" / "000000").read_bytes() == whole.read_bytes()


def test_the_layout_changes_no_byte_of_the_log(tmp_path: Path):
    inline = keeping(tmp_path).path / "scalars" / "000000"
    run = train(SMALL, layout=replace(KEEPING, pool="process", workers=2), out=tmp_path / "two")
    assert (run.path / "scalars" / "000000").read_bytes() == inline.read_bytes()


def test_the_log_does_not_grow_with_the_parameters(tmp_path: Path):
    wide = replace(SMALL, hidden=(64, 64), total_steps=200, obs_stat_probability=0.0)
    sizes: list[int] = []
    for name, config in (("wide", wide), ("narrow", replace(wide, hidden=()))):
        folder = keeping(tmp_path / name, config)
        generations = len(list(read_chain(folder.fingerprints_csv).rows()))
        sizes.append((folder.path / "scalars" / "000000").stat().st_size // generations)
    assert sizes[0] == sizes[1]


def test_a_changed_return_is_noticed_by_the_fingerprint(tmp_path: Path):
    from drumline.runs.scalar_log import decoded, encoded

    folder = keeping(tmp_path)
    log = folder.path / "scalars" / "000000"
    first, *later = decoded(log.read_bytes())
    told = first.members[0]._replace(fitness=first.members[0].fitness + 100.0)
    changed = first._replace(members=(told, *first.members[1:]))
    log.write_bytes(b"".join(map(encoded, (changed, *later))))
    shutil.rmtree(folder.checkpoints)
    with pytest.raises(RunError, match="parameters of generation 3 is not what"):
        rebuild(folder, 3, TRUSTED)


def test_it_writes_a_policy_that_can_be_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: Terminal
):
    folder = keeping(tmp_path)
    monkeypatch.chdir(tmp_path)
    ended = terminal("rebuild", str(folder.path), "--generation=2")
    assert ended.code == 0, ended.err
    assert "generation 2, equal to its fingerprint: policy-2.safetensors" in ended.out
    told = f"drumline evaluate {folder.path} --policy policy-2.safetensors"
    assert ended.out.splitlines()[-1] == f"next: {told}"
    ended = terminal.line(f"{told} --episodes=2")
    assert ended.code == 0, ended.err
    assert "2 episodes" in ended.out
    from drumline.runs.policy_files import read_policy_file

    stored = read_policy_file(tmp_path / "policy-2.safetensors")
    row = list(read_chain(folder.fingerprints_csv).rows())[1]
    assert array_hash(np.asarray(stored.tensors["parameters"])) in row.hashes


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("rebuild RUN --generation 1000", "ends at generation"),
        ("rebuild RUN --generation -2", "--generation must be 0 or more"),
        ("rebuild RUN --out mine.bin", "--out mine.bin: name a file that ends in .safetensors"),
        ("rebuild RUN --out no/p.safetensors", "cannot write no/p.safetensors: no does not exist"),
        ("rebuild RUN --out a.safetensors", "cannot write a.safetensors: it is a folder"),
        ("evaluate RUN --policy newest", "neither best, last nor a .safetensors file"),
        ("evaluate RUN --policy no.safetensors", "cannot read the policy no.safetensors"),
    ],
)
def test_wrong_use_is_one_sentence(tmp_path: Path, terminal: Terminal, words: str, message: str):
    folder = keeping(tmp_path, replace(SMALL, total_steps=60))
    Path("a.safetensors").mkdir()
    ended = terminal(*words.replace("RUN", str(folder.path)).split())
    assert ended.code == 2
    assert message in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("words", "name"), [([], "policy-GENERATION"), (["--generation=2"], "policy-2")]
)
def test_a_folder_without_write_access_is_refused_before_the_work(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, words: list[str], name: str
):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    monkeypatch.setattr("drumline.commands.rebuild.rebuild", pytest.fail)
    ended = terminal("rebuild", "run", *words)
    said = f"cannot write {name}.safetensors: . is read-only; give another --out"
    assert (ended.code, ended.err) == (2, f"drumline: {said}\n")


def test_what_has_no_log_is_refused(tmp_path: Path):
    without = train(replace(SMALL, total_steps=60), workers="inline", out=tmp_path / "without")
    for generation in (2, 1000):
        with pytest.raises(RunError, match="only runs begun with --keep-scalars have one"):
            rebuild(without.folder, generation, TRUSTED)
    assert rebuild(without.folder, 1, TRUSTED).compared
    assert rebuild(without.folder, trust=TRUSTED).compared  # its last checkpoint needs no log
    hts = HTS(env="CartPole-v1", total_steps=64, num_envs=2, alpha=8, minibatches=2)
    learned = train(hts, workers="inline", out=tmp_path / "hts")
    with pytest.raises(RunError, match="is a run of hts: only a search"):
        rebuild(learned.folder, 1, TRUSTED)


def test_a_run_begun_without_a_log_is_not_given_half_of_one(tmp_path: Path):
    run = train(replace(SMALL, total_steps=60), workers="inline", out=tmp_path / "run")
    with pytest.raises(RunError, match="was begun without --keep-scalars"):
        resume(run.folder, KEEPING, trust=TRUSTED, total_steps=200)
