"""Links in a run folder: none is followed, and a folder with one is refused before a write."""

import os
import shutil
from pathlib import Path

import pytest
from runs.runs_examples import example_record, example_state, new_folder
from typed_commands import Terminal

from drumline.runs.append_file import AppendFile
from drumline.runs.atomic_files import replace_file, write_synced
from drumline.runs.claims import LOCK
from drumline.runs.folder import RunError, RunFolder
from drumline.runs.own_files import DIRECTORIES, FILES, read_file
from drumline.runs.recorder import Recorder

OLD = Path(__file__).resolve().parents[1] / "v0_1_folders"
SECRET = "the user's own file\n"
pytestmark = pytest.mark.usefixtures("unchecked_shapes")


@pytest.fixture
def terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Terminal:
    """A terminal beside copies of two old folders and a file that must not change."""
    for method in ("es", "acem-rl"):
        shutil.copytree(OLD / method, tmp_path / method)
    (tmp_path / "secret").write_text(SECRET)
    monkeypatch.chdir(tmp_path)
    return Terminal(capfd)


def contents(folder: Path) -> dict[str, bytes | str]:
    """Return every file but the lock with its bytes, and every link with its target."""
    return {
        str(path): os.readlink(path) if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or (path.is_file() and path.name != LOCK)
    }


def every_place(folder: Path) -> list[Path]:
    """Return the places of all that drumline reads or writes in the folder, present or not."""
    inner = [path for name in DIRECTORIES for path in (folder / name).rglob("*")]
    return [*(folder / name for name in sorted(FILES)), folder / "replay" / "000009", *inner]


def test_files_of_a_file_manager_do_no_harm(terminal: Terminal):
    for place in ("checkpoints", "replay"):
        Path("acem-rl", place, ".DS_Store").touch()
        Path("acem-rl", place, "thumbnails").mkdir()
    assert terminal("plot", "acem-rl", "--out=a.png").code == 0
    numbered = next(path for path in Path("es/checkpoints").iterdir() if path.name.isdecimal())
    shutil.rmtree(numbered)
    numbered.touch()
    assert f"{numbered} is not a directory" in terminal("plot", "es", "--out=a.png").err


COMMANDS = (
    ("resume", "--quiet", "--pool=inline", "--total-steps=1000000", "--other-machine"),
    ("evaluate", "--episodes=1"),
    ("enjoy", "--max-steps=1"),
    ("plot",),
    ("compare",),
    ("report",),
    ("verify", "--pool=inline"),
    ("episode",),
)


@pytest.mark.parametrize(("command", "flags"), [(first, rest) for first, *rest in COMMANDS])
def test_a_folder_with_a_link_is_refused_before_the_first_write(
    terminal: Terminal, command: str, flags: list[str]
):
    for place in ("metrics.csv", "card.md", "policy-best.safetensors"):
        path = Path("es", place)
        path.unlink()
        path.symlink_to(Path("secret").resolve())
        before = contents(Path("es"))
        ended = terminal(command, "es", *flags)
        assert ended.code == 2, ended.err
        assert len(ended.err.splitlines()) == 1
        assert f"{path} is a link" in ended.err
        assert contents(Path("es")) == before
        path.unlink()
        shutil.copy(OLD / path, path)
    assert Path("secret").read_text() == SECRET


def test_every_place_of_a_link_is_found(terminal: Terminal):
    for place in every_place(Path("acem-rl")):
        aside = Path("moved")
        there = place.exists()
        if there:
            place.rename(aside)
        place.symlink_to(aside.resolve() if there else "/nowhere")
        with pytest.raises(RunError, match=rf"{place} is a link"):
            RunFolder.open("acem-rl")
        place.unlink()
        if there:
            aside.rename(place)
    RunFolder.open("acem-rl")


@pytest.mark.parametrize("name", DIRECTORIES)
def test_a_directory_that_is_a_link_is_refused(terminal: Terminal, name: str):
    place = Path("acem-rl", name)
    place.mkdir(exist_ok=True)  # a folder of v0.1 has no scalar log
    place.rename("elsewhere")
    place.symlink_to(Path("elsewhere").resolve())
    with pytest.raises(RunError, match=rf"acem-rl/{name} is a link"):
        RunFolder.open("acem-rl")


def test_a_pipe_in_the_place_of_a_file_is_refused_without_waiting(terminal: Terminal):
    Path("es/metrics.csv").unlink()
    os.mkfifo("es/metrics.csv")
    ended = terminal("plot", "es")
    assert ended.code == 2
    assert "es/metrics.csv is not a plain file" in ended.err
    with pytest.raises(RunError, match="not a plain file"):
        read_file(Path("es/metrics.csv"))


@pytest.mark.parametrize("name", ["metrics.csv", "processes.csv", "checkpoints/0/manifest.json"])
def test_a_file_with_a_second_name_is_read_but_not_written(terminal: Terminal, name: str):
    os.link(Path("es", name), "second-name")
    before = contents(Path("es"))
    assert terminal("plot", "es").code == 0
    ended = terminal("resume", "es", "--quiet", "--pool=inline", "--other-machine")
    assert ended.code == 2, ended.err
    assert len(ended.err.splitlines()) == 1
    assert f"{name} has 2 names" in ended.err
    assert contents(Path("es")) == before


def test_the_way_to_the_folder_may_lead_over_links(terminal: Terminal):
    Path("runs").symlink_to(Path().resolve())
    Path("alias").symlink_to("es")
    assert terminal("evaluate", "alias", "--episodes=1").code == 0
    assert terminal("plot", "runs/es").code == 0


def test_a_link_under_a_foreseeable_temporary_name_is_not_followed(tmp_path: Path):
    victim = tmp_path / "secret"
    victim.write_text(SECRET)
    folder = new_folder(tmp_path / "run")
    for name in FILES:
        (folder.path / f".{name}.partial").symlink_to(victim)
    folder.update_document(promise="text of a stranger")
    replace_file(folder.card_md, b"text of a stranger")
    assert victim.read_text() == SECRET


def test_a_picture_or_page_replaces_a_link_and_does_not_follow_it(terminal: Terminal):
    for command, name in (("plot", "curve.png"), ("compare", "compare.png"), ("report", "r.html")):
        Path(name).symlink_to("secret")
        assert terminal(command, "es", "--out", name).code == 0
        assert not Path(name).is_symlink()
    assert Path("secret").read_text() == SECRET


@pytest.mark.parametrize("command", ["plot", "compare", "report"])
def test_a_device_or_pipe_is_no_file_to_write_to(terminal: Terminal, command: str):
    os.mkfifo("pipe")
    ended = terminal(command, "es", "--out", "pipe")
    assert ended.code == 2
    assert "a device or a pipe" in ended.err
    assert Path("pipe").is_fifo()


def test_new_files_and_rows_never_go_through_a_link(tmp_path: Path):
    victim, link = tmp_path / "secret", tmp_path / "link"
    victim.write_text(SECRET)
    link.symlink_to(victim)
    for write in (lambda: write_synced(link, b"x"), lambda: AppendFile(link)):
        with pytest.raises(OSError, match="link"):
            write()
    with pytest.raises(OSError, match="it is a link"):
        read_file(link)
    assert victim.read_text() == SECRET


def test_the_writer_refuses_a_link_that_came_after_the_folder_was_opened(tmp_path: Path):
    victim = tmp_path / "secret"
    victim.write_text(SECRET)
    folder = new_folder(tmp_path / "run")
    folder.metrics_csv.symlink_to(victim)
    with pytest.raises(RunError, match=r"metrics\.csv is a link"):
        Recorder(folder, tensorboard=False)
    assert victim.read_text() == SECRET


def test_the_writer_removes_temporary_files_that_a_kill_has_left(tmp_path: Path):
    folder = new_folder(tmp_path / "run")
    left = folder.path / f".card.md.{'0a' * 16}.partial"
    left.write_text("half")
    mine = folder.path / ".notes.partial"
    mine.write_text("the user's own")
    recorder = Recorder(folder, tensorboard=False)
    recorder.update(example_record(0))
    recorder.checkpoint(0, example_state(), {})
    recorder.close()
    assert not left.exists()
    assert mine.exists()
