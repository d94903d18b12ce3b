"""The comparison of two commits can fail: each kind of difference is named."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from benchmark_scripts import load_script
from safetensors.numpy import load_file, save_file

from drumline.api.run import train
from drumline.recipes.es import ES
from drumline.training.layout import SearchLayout

same_bits = load_script("", "same_bits")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three updates."""
    config = ES(
        env="CartPole-v1",
        total_steps=240,
        population_size=4,
        hidden=(4,),
        noise_table_size=4096,
        evaluate_episodes=1,
    )
    out = tmp_path_factory.mktemp("runs") / "run"
    return train(config, out=out, layout=SearchLayout(pool="inline", tensorboard=False)).path


@pytest.fixture
def changed(run: Path, tmp_path: Path) -> Path:
    """A copy, for a test to change."""
    return Path(shutil.copytree(run, tmp_path / "changed"))


def last_checkpoint(run: Path) -> Path:
    return max((run / "checkpoints").iterdir(), key=lambda place: int(place.name))


def test_a_copy_is_equal(run: Path, changed: Path) -> None:
    assert same_bits.differences(run, changed) == []


def test_wall_clock_time_is_not_compared(run: Path, changed: Path) -> None:
    table = (run / "metrics.csv").read_text().splitlines()
    column = table[0].split(",").index("wall_seconds")
    cells = table[1].split(",")
    cells[column] = "12345.0"
    (changed / "metrics.csv").write_text("\n".join([table[0], ",".join(cells), *table[2:], ""]))
    assert same_bits.differences(run, changed) == []


def test_one_flipped_bit_of_a_tensor_is_named(run: Path, changed: Path) -> None:
    place = last_checkpoint(changed)
    tensors = load_file(place / "state.safetensors")
    name = next(name for name, array in tensors.items() if array.dtype == np.float32)
    tensors[name].reshape(-1).view(np.uint32)[2] ^= 1
    save_file(tensors, place / "state.safetensors")

    (difference,) = same_bits.differences(run, changed)

    assert difference.update == int(place.name)
    assert f"tensor {name} of the checkpoint" in difference.place
    assert "first number 2" in difference.place


def test_a_zero_of_another_sign_differs(run: Path, changed: Path) -> None:
    for place, zero in ((run, 0.0), (changed, -0.0)):
        save_file({"moments": np.array([zero])}, place / "policy-last.safetensors")
    assert "tensor moments" in same_bits.differences(run, changed)[0].place


def test_a_changed_counter_is_named(run: Path, changed: Path) -> None:
    place = last_checkpoint(changed)
    counters = json.loads((place / "counters.json").read_text())
    counters["run_episodes"] = "int 999"
    (place / "counters.json").write_text(json.dumps(counters))

    (difference,) = same_bits.differences(run, changed)

    assert "counter run_episodes" in difference.place
    assert "int 999 here" in difference.place


def test_a_changed_metric_is_named_with_its_update(run: Path, changed: Path) -> None:
    table = (run / "metrics.csv").read_text().splitlines()
    column = table[0].split(",").index("gradient_norm")
    cells = table[2].split(",")
    cells[column] = repr(np.nextafter(float(cells[column]), np.inf).item())
    text = "\n".join([*table[:2], ",".join(cells), *table[3:], ""])
    (changed / "metrics.csv").write_text(text)

    (difference,) = same_bits.differences(run, changed)

    assert difference.update == 2
    assert difference.place.startswith("gradient_norm of metrics.csv")


def test_a_missing_update_is_named(run: Path, changed: Path) -> None:
    for name in ("metrics.csv", "fingerprints.csv"):
        whole = (run / name).read_text().splitlines(keepends=True)
        (changed / name).write_text("".join(whole[:-1]))
    last = len(whole) - 1

    found = same_bits.differences(run, changed)

    assert {difference.update for difference in found} == {last}
    assert any("fingerprints.csv" in difference.place for difference in found)
    assert any("metrics.csv has" in difference.place for difference in found)


def test_a_case_that_fails_alike_at_both_is_not_equal(tmp_path: Path) -> None:
    case = same_bits.cases()[0]
    ending = same_bits.Ending(tmp_path, 2, "no such environment")
    verdict = same_bits.compare(case, ending, ending)
    assert verdict.kind == "fails"
    assert "no such environment" in verdict.text


def test_a_case_that_fails_at_one_commit_says_where(tmp_path: Path) -> None:
    case = same_bits.cases()[0]
    runs, fails = same_bits.Ending(tmp_path, 0, ""), same_bits.Ending(tmp_path, 2, "unknown flag")
    assert same_bits.compare(case, fails, runs).text == "there: unknown flag; here: runs"
    assert same_bits.compare(case, runs, fails).text == "there: runs; here: unknown flag"


def test_a_run_without_its_checkpoint_cannot_be_compared(run: Path, changed: Path) -> None:
    (last_checkpoint(changed) / "counters.json").unlink()
    endings = []
    for folder in (run, changed):
        place = folder.parent / f"case-{folder.name}"
        shutil.copytree(folder, place / "run")
        endings.append(same_bits.Ending(place, 0, ""))
    verdict = same_bits.compare(same_bits.cases()[0], *endings)
    assert verdict.kind == "fails"
    assert "counters.json" in verdict.text


def test_every_method_has_cases() -> None:
    from drumline.recipes.methods import METHODS

    assert {case.method for case in same_bits.cases()} == set(METHODS)
