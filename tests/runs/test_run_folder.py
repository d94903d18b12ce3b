import errno
import json
import os
from pathlib import Path

import pytest
from runs.runs_examples import new_folder

from drumline.runs import folder as folders
from drumline.runs.folder import RunError, RunFolder
from drumline.runs.next_commands import as_typed, by_path


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def dated(seed: int = 0) -> RunFolder:
    return RunFolder.create(
        None, method="es", env_id="ALE/Pong-v5", seed=seed, document={"config": {"env": ""}}
    )


def test_default_name_says_method_environment_and_seed_without_slashes():
    name = RunFolder.create(
        None, method="es", env_id="mod:ALE/Pong", seed=7, document={"config": {"env": ""}}
    ).path
    assert name.parent == Path("runs").absolute()
    assert name.name.startswith("es-mod-ALE-Pong-s7-")


def test_runs_of_the_same_second_get_folders_of_their_own():
    paths = [dated().path for _ in range(5)]
    assert len(set(paths)) == 5
    assert any(path.name.endswith("-2") for path in paths)


def test_config_survives_opening_and_updating():
    folder = dated()
    folder.update_document(promise="same bits", layout={"workers": 4})
    opened = RunFolder.open(folder.path)
    assert opened.document == folder.document
    assert opened.document["format"] == 1
    assert opened.document["method"] == "es"
    assert opened.document["layout"] == {"workers": 4}
    assert sorted(path.name for path in folder.path.iterdir()) == ["config.json"]


def test_out_is_the_folder_itself_and_may_exist_if_empty():
    Path("mine").mkdir()
    assert new_folder(Path("mine")).path == Path("mine").absolute()


def test_out_that_is_not_empty_is_refused():
    new_folder(Path("mine"))
    with pytest.raises(RunError, match=r"mine exists and is not empty.*--out"):
        new_folder(Path("mine"))


@pytest.mark.parametrize("links", [True, False])
def test_of_two_runs_that_begin_at_the_same_moment_one_is_refused(
    monkeypatch: pytest.MonkeyPatch, links: bool
):
    monkeypatch.setattr(folders, "_make_at", lambda out: out)  # both have found it empty
    if not links:

        def refused(*_: object) -> None:
            raise PermissionError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(os, "link", refused)
    Path("mine").mkdir()
    first = new_folder(Path("mine"))
    before = first.config_json.read_bytes()
    with pytest.raises(RunError, match=r"mine exists and is not empty.*drumline resume mine"):
        RunFolder.create(Path("mine"), method="ars", env_id="b", seed=2, document={"config": {}})
    assert first.config_json.read_bytes() == before
    assert [path.name for path in first.path.iterdir()] == ["config.json"]


def test_out_that_is_a_file_or_below_one_is_refused():
    Path("file").write_text("")
    for out in (Path("file"), Path("file/below")):
        with pytest.raises(RunError, match=f"{out}.*--out"):
            new_folder(out)


@pytest.mark.parametrize("out", [None, Path("mine")])
def test_read_only_file_system_is_refused_with_the_flag(out, monkeypatch: pytest.MonkeyPatch):
    def read_only(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "mkdir", read_only)
    with pytest.raises(RunError, match=r"Read-only file system.*--out"):
        RunFolder.create(out, method="es", env_id="X", seed=0, document={"config": {"env": ""}})


def test_full_disk_at_creation_is_refused_with_the_flag(monkeypatch: pytest.MonkeyPatch):
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=r"No space left.*--out"):
        new_folder(Path("mine"))


def test_runs_are_found_by_path_by_name_and_as_last():
    first, second = dated(1), dated(2)
    first.update_document(promise="changed later, but not created later")
    for name in (str(second.path), second.path.name, "last"):
        assert RunFolder.open(name).path == second.path
    assert RunFolder.open(first.path.name).document["seed"] == 1


@pytest.mark.parametrize("name", ["last", "-x", "--help"])
def test_a_folder_with_the_name_of_the_newest_run_or_of_a_flag_is_shown_as_a_path(name: str):
    folder = new_folder(Path(name))
    newest = dated()
    assert newest.path != folder.path
    assert by_path(folder, "plot") == as_typed(folder, "plot") == f"drumline plot ./{name}"
    assert RunFolder.open(folder.shown).path == folder.path
    assert RunFolder.at(Path(name)).path == folder.path
    with pytest.raises(RunError, match=f"go on with that run: drumline resume ./{name}$"):
        new_folder(Path(name))


def test_a_run_that_is_named_twice_is_one_run():
    first, second = dated(), dated(seed=1)
    names = [str(first.path), "last", first.path.name, str(second.path.resolve())]
    assert [folder.path for folder in RunFolder.open_each(names)] == [first.path, second.path]


def test_last_does_not_count_folders_without_config():
    run = dated()
    Path("runs/zz").mkdir()
    assert RunFolder.open("last").path == run.path


def test_last_without_any_run_says_so():
    with pytest.raises(RunError, match="no run under"):
        RunFolder.open("last")


def test_misspelt_name_offers_the_nearest():
    name = dated().path.name
    with pytest.raises(RunError, match=f"no run 'x{name[1:]}'.*did you mean {name}"):
        RunFolder.open("x" + name[1:])


def test_folder_without_config_is_no_run():
    Path("other").mkdir()
    with pytest.raises(RunError, match="not a run folder"):
        RunFolder.open("other")


@pytest.mark.parametrize("text", ['{"format": 1, "method"', "[]", "", "\xff", '{"format": 1}'])
def test_damaged_config_is_named_even_as_last(text: str):
    folder = dated()
    folder.config_json.write_bytes(text.encode("latin-1"))
    for name in (str(folder.path), "last"):
        with pytest.raises(RunError, match=r"config\.json is damaged"):
            RunFolder.open(name)


def test_config_of_another_format_is_refused():
    folder = dated()
    folder.config_json.write_text(json.dumps({**folder.document, "format": 2}))
    with pytest.raises(RunError, match="made by another version"):
        RunFolder.open(folder.path)
