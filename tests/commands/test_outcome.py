"""Ends of commands: signals, exit codes, and messages that work as typed."""

import errno
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import impure_environment
import pytest
from campaigns import FAULTS, cases
from commands.refused_places import refuse
from doubles import wait_until
from typed_commands import TINY, Terminal, drumline, environ, said_command

from drumline.commands.command_line import CommandLine
from drumline.commands.outcome import _stop, ended
from drumline.errors import WorkerError
from drumline.runs.folder import RunFolder
from drumline.training.stop_signals import STOPPING
from drumline.training.stopped import Stopped

IN_A_TERMINAL = """
import fcntl, signal, termios
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from drumline.cli import main
main()
"""
"""Runs a command in the terminal that is its standard input."""


FEW_FILES = """
import resource
from drumline.cli import main
def few(count):
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))
    main()
few"""
"""Runs a command in a process that may open few files."""


def line(command: str) -> CommandLine:
    return CommandLine(command, ["last"], lambda parts, words, program, hidden: parts)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_anywhere_in_a_command_is_an_exit_code_and_no_traceback(
    capfd: pytest.CaptureFixture[str], number: signal.Signals, code: int
):
    # As a terminal starts a program: a shell's background job would ignore SIGINT.
    before = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    inherited = signal.signal(number, before)

    def command(line: CommandLine) -> int:
        os.kill(os.getpid(), number)
        raise AssertionError("the signal was not taken")

    try:
        assert ended(command, line("evaluate")) == code
        assert capfd.readouterr().err == f"stopped by {number.name}\n"
        assert signal.getsignal(number) is before
    finally:
        signal.signal(number, inherited)


def test_more_signals_at_the_end_of_a_command_leave_no_handler_behind(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    before = {number: signal.getsignal(number) for number in STOPPING}
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    put, hits = signal.signal, iter(range(5))

    def under_fire(number: int, handler: Any) -> Any:
        if handler is not _stop and next(hits, None) is not None:
            os.kill(os.getpid(), signal.SIGINT)
        return put(number, handler)

    def command(line: CommandLine) -> int:
        monkeypatch.setattr(signal, "signal", under_fire)
        return 0

    try:
        assert ended(command, line("evaluate")) == 130
        assert capfd.readouterr().err == "stopped by SIGINT\n"
        assert next(hits, None) is None
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        monkeypatch.undo()
        signal.signal(signal.SIGINT, inherited)
    assert {number: signal.getsignal(number) for number in STOPPING} == before


def test_a_signal_that_the_process_inherited_as_ignored_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:

        def command(line: CommandLine) -> int:
            os.kill(os.getpid(), signal.SIGINT)
            return 0

        assert ended(command, line("evaluate")) == 0
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_signal_while_torch_is_imported_is_taken_once_it_is_there(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    spec = SimpleNamespace(_initializing=True)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__spec__=spec))
    reached: list[str] = []

    def command(line: CommandLine) -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        reached.append("imported")
        spec._initializing = False
        wait_until(lambda: False, 10.0)
        return 0

    assert ended(command, line("evaluate")) == 143
    assert reached == ["imported"]
    assert capfd.readouterr().err == "stopped by SIGTERM\n"


def test_a_signal_after_the_last_word_keeps_the_exit_code():
    script = (
        "import os, signal\n"
        "from drumline.commands.outcome import keep_code\n"
        "keep_code(130)\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
        "raise AssertionError\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (130, b"")


def test_a_fault_of_drumlines_own_keeps_its_traceback_and_is_no_difference(
    capfd: pytest.CaptureFixture[str],
):
    def command(line: CommandLine) -> int:
        raise KeyError("fault")

    assert ended(command, line("verify")) == 3
    said = capfd.readouterr().err
    assert said.startswith("Traceback")
    assert said.endswith("KeyError: 'fault'\n")


def test_a_pipe_of_other_code_that_breaks_is_a_failure(capfd: pytest.CaptureFixture[str]):
    def command(line: CommandLine) -> int:
        raise BrokenPipeError(errno.EPIPE, "the server has gone")

    assert ended(command, line("doctor")) == 3
    assert capfd.readouterr().err.endswith("BrokenPipeError: [Errno 32] the server has gone\n")


def test_what_a_users_environment_computes_wrongly_keeps_its_traceback(
    capfd: pytest.CaptureFixture[str],
):
    def command(line: CommandLine) -> int:
        error = FloatingPointError("overflow")
        raise WorkerError("a task", "FloatingPointError: overflow", "theirs.py, line 3", error)

    assert ended(command, line("train")) == 3
    assert "theirs.py, line 3" in capfd.readouterr().err


def test_a_stopped_run_is_called_last_only_if_it_is_the_newest_under_runs(
    terminal: Terminal, capfd: pytest.CaptureFixture[str]
):
    terminal.train("es", "CartPole-v1", "--out=elsewhere place/run")
    terminal.train("es", "CartPole-v1")
    terminal.train("es", "CartPole-v1", "--seed=1")
    older, newer = sorted(Path("runs").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    for path, name in [
        (newer, "last"),
        (older, str(older)),
        (Path("elsewhere place/run"), "'elsewhere place/run'"),
    ]:

        def command(line: CommandLine, path: Path = path) -> int:
            stop = Stopped(signal.SIGTERM)
            stop.run = RunFolder.open(path)
            raise stop

        assert ended(command, line("train")) == 143
        told = capfd.readouterr().err
        assert str(path) in told
        assert said_command(told) == f"drumline resume {name}"
        assert terminal.line(f"{said_command(told)} --pool=inline").code == 0


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=FAULTS)],
)
def test_a_training_run_that_is_stopped_prints_the_command_that_goes_on(
    terminal: Terminal, tmp_path: Path, number: signal.Signals, code: int
):
    words = ["train", "es", "impure_environment:Counting", *TINY, "--total-steps=10000000"]
    words += ["--out=my run", "--checkpoint-minutes=60", "--quiet"]
    process = subprocess.Popen(
        [sys.executable, "-m", "drumline", *words],
        cwd=tmp_path,
        env=environ(),
        stderr=subprocess.PIPE,
        text=True,
    )
    metrics = tmp_path / "my run" / "metrics.csv"
    wait_until(lambda: process.poll() is not None or (metrics.exists() and metrics.stat().st_size))
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    assert said_command(errors) == "drumline resume 'my run' --trust-code"
    rows = metrics.read_text().splitlines()[1:]
    steps = int(float(rows[-1].split(",")[1])) + 40
    more = [f"--total-steps={steps}", "--pool=inline"]
    again = terminal("resume", "my run", "--trust-code", *more)
    assert again.code == 0, again.err
    assert metrics.read_text().splitlines()[1 : len(rows) + 1] == rows
    assert len(metrics.read_text().splitlines()) > len(rows) + 1


def test_a_training_run_whose_terminal_closes_is_saved_and_goes_on(
    terminal: Terminal, tmp_path: Path
):
    words = ["train", "es", "CartPole-v1", *TINY, "--total-steps=10000000", "--out=run"]
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", IN_A_TERMINAL, *words],
        cwd=tmp_path,
        env=environ(),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    drawn = b""
    while b"env steps" not in drawn:  # the dashboard is drawn there
        drawn += os.read(master, 1024)
    os.close(master)
    assert process.wait(timeout=60) == 129
    done = int(float((tmp_path / "run/metrics.csv").read_text().splitlines()[-1].split(",")[1]))
    again = terminal("resume", "run", f"--total-steps={done + 40}", "--pool=inline")
    assert again.code == 0, again.err


@pytest.mark.parametrize(
    ("method", "files"), cases([("es", 12), ("es", 40), ("hts", 12)], quick=[("es", 40)])
)
def test_too_few_open_files_are_one_sentence_with_the_limit(
    tmp_path: Path, method: str, files: int
):
    words = ["train", "es", "CartPole-v1", *TINY, "--pool=process", "--workers=40", "--out=run"]
    if method == "hts":
        words = ["train", "hts", "CartPole-v1", "--executors=8", "--out=run"]
    done = subprocess.run(
        [sys.executable, "-c", f"{FEW_FILES}({files})", *words],
        cwd=tmp_path,
        env=environ({"PYTHONHASHSEED": "0"}),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 3, done.stderr
    (sentence,) = [line for line in done.stderr.splitlines() if line.startswith("drumline: ")]
    assert f"too many open files: a process may have {files} of them" in sentence
    assert "--workers" in sentence
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_too_few_open_files_in_a_worker_are_one_sentence(
    capfd: pytest.CaptureFixture[str], number: int
):
    def command(line: CommandLine) -> int:
        error = OSError(number, os.strerror(number))
        raise WorkerError("a task", "OSError: too many", "Traceback: worker.py, line 3", error)

    assert ended(command, line("train")) == 3
    said = capfd.readouterr().err
    assert "in a worker process" in said
    assert "--workers" in said
    assert "Traceback" not in said


def test_paths_with_spaces_and_accents_do_not_depend_on_the_locale(tmp_path: Path):
    place = tmp_path / "ein Ort ü"
    place.mkdir()
    changes = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    train = ["train", "es", "CartPole-v1", *TINY, "--out=Lauf é"]
    for words in (train, ["resume", "Lauf é", "--total-steps=100"], ["plot", "Lauf é"]):
        done = drumline(*words, cwd=place, changes={**changes, "PYTHONHASHSEED": "0"})
        assert done.returncode == 0, done.stderr
    assert "drumline verify 'Lauf é'" in (place / "Lauf é" / "card.md").read_text(encoding="utf-8")


def test_a_stopped_repetition_names_no_run_that_is_gone(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
):
    terminal.train("es", "CartPole-v1", "--out=run")

    def stopping(run: object) -> None:
        raise Stopped(signal.SIGINT)

    monkeypatch.setattr("drumline.training.generational_run.GenerationalRun.run", stopping)
    stopped = terminal("verify", "run", "--pool=inline")
    assert stopped.code == 130
    assert stopped.err == "stopped by SIGINT\n"


def test_a_finished_run_names_commands_that_work_as_typed(terminal: Terminal):
    ended = terminal("train", "es", "impure_environment:Counting", *TINY, "--out=run")
    *_, following = ended.out.splitlines()
    plot, _enjoy, verify = following.removeprefix("next: ").split(" · ")
    assert plot == "drumline plot run"
    assert verify == "drumline verify run --trust-code"
    assert terminal.line(plot).code == 0
    assert terminal.line(f"{verify} --pool=inline").code == 0


@pytest.mark.parametrize("pool", ["inline", "process"])
def test_storages_that_do_not_fit_in_memory_name_their_flags_and_leave_no_folder(
    terminal: Terminal, pool: str
):
    sizes = ["--num-envs=8", "--alpha=10000000000", "--total-steps=80000000000"]
    refused = terminal("train", "hts", "CartPole-v1", *sizes, f"--pool={pool}", "--out=run")
    assert refused.code == 2
    assert "of memory is available" in refused.err
    assert "that is what --num-envs 8 and --alpha 10000000000 need" in refused.err
    assert not Path("run").exists()


@pytest.mark.parametrize("errors_too", [False, pytest.param(True, marks=FAULTS)])
def test_a_training_run_whose_reader_leaves_is_stopped_and_goes_on_later(
    terminal: Terminal, tmp_path: Path, errors_too: bool
):
    words = ["train", "es", "CartPole-v1", *TINY, "--total-steps=10000000", "--out=run", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "drumline", *words],
        cwd=tmp_path,
        env=environ(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if errors_too else subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    try:
        process.wait(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGPIPE
    if process.stderr is not None:
        assert said_command(process.stderr.read()) == "drumline resume run"
        process.stderr.close()
    assert (tmp_path / "run" / "policy-last.safetensors").exists()
    rows = (tmp_path / "run" / "metrics.csv").read_text().splitlines()
    done = int(float(rows[-1].split(",")[1]))
    again = terminal("resume", "run", f"--total-steps={done + 40}", "--pool=inline")
    assert again.code == 0, again.err
    assert (tmp_path / "run" / "metrics.csv").read_text().splitlines()[: len(rows)] == rows


def test_a_message_that_cannot_be_written_leaves_the_exit_code(tmp_path: Path):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "drumline", "verify", "nowhere"]
        ended = subprocess.run(command, cwd=tmp_path, stderr=full, env=environ(), timeout=120)
    assert ended.returncode == 2  # Python's own 1 would say that runs differ


@pytest.mark.parametrize(
    "number",
    [
        *(errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST),
        *(errno.ENAMETOOLONG, errno.ELOOP),
    ],
)
def test_a_place_that_cannot_be_read_or_written_is_one_sentence(
    capfd: pytest.CaptureFixture[str], number: int
):
    def command(line: CommandLine) -> int:
        raise OSError(number, os.strerror(number), "there/metrics.csv")

    assert ended(command, line("resume")) == 2
    said = f"drumline: cannot read or write there/metrics.csv ({os.strerror(number)})\n"
    assert capfd.readouterr().err == said


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["resume", "run", "--total-steps=100", "--pool=inline"], "run/metrics.csv"),
        (["resume", "run", "--total-steps=100", "--pool=inline"], "run"),
        (["evaluate", "run", "--episodes=1"], "run"),
        (["evaluate", "run", "--episodes=1", "--json"], "run/metrics.csv"),
        (["evaluate", "run", "--episodes=1"], "run/config.json"),
        (["compare", "run"], "run"),
        (["plot", "run"], "run"),
        (["plot", "a" * 300], "run"),
        (["compare", "a" * 300], "run"),
        (["list", "a" * 300], "run"),
    ],
)
def test_a_run_that_may_not_be_read_or_written_is_named_in_one_sentence(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, words: list[str], place: str
):
    terminal.train("es", "CartPole-v1", "--out=run")
    refuse(monkeypatch, Path(place))
    refused = terminal(*words)
    assert refused.code == 2, refused
    assert len(refused.err.splitlines()) == 1, refused.err
    named = place if words[1] == "run" else words[1]
    assert refused.err.startswith("drumline: cannot read ")
    assert f"{named} (" in refused.err


def test_a_file_that_an_environment_misses_keeps_its_traceback(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
):
    def step(self: object, action: object) -> None:
        Path("assets.xml").read_bytes()

    terminal.train("es", "impure_environment:Counting", "--out=run")
    monkeypatch.setattr(impure_environment.Counting, "step", step)
    ended = terminal("evaluate", "run", "--trust-code", "--episodes=1")
    assert ended.code == 3
    assert "Traceback" in ended.err
    assert "assets.xml" in ended.err


PRINTING = ["--help", "list run", "train es CartPole-v1 --print-config"]
LATER = [
    *("--version", "train --help", "evaluate run --episodes=1", "compare run"),
    "verify run --pool=inline",
]


@pytest.mark.parametrize("words", cases([*PRINTING, *LATER], quick=PRINTING))
def test_output_that_cannot_be_written_ends_with_an_exit_code_of_the_table(
    terminal: Terminal, tmp_path: Path, words: str
):
    terminal.train("es", "CartPole-v1", "--out=run")
    read, write = os.pipe()
    os.close(read)
    with open("/dev/full", "w") as full, os.fdopen(write, "w") as gone:
        for stdout, code, said in (
            (full, 3, "drumline: cannot write the output (No space left on device)\n"),
            (gone, 0, ""),
        ):
            done = subprocess.run(
                [sys.executable, "-m", "drumline", *words.split()],
                cwd=tmp_path,
                env=environ(),
                stdout=stdout,
                stderr=subprocess.PIPE,
                text=True,
                timeout=120,
            )
            assert (done.returncode, done.stderr) == (code, said)


def test_a_command_that_fails_behind_output_that_cannot_be_written_says_its_own_failure():
    program = (
        "import sys\nfrom drumline.commands.command_line import WrongUse\n"
        "from drumline.commands.outcome import ended\n"
        "def command(line):\n    print('some of it')\n    raise WrongUse('no more')\n"
        "sys.exit(ended(command, None))\n"
    )
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environ({"PYTHONUNBUFFERED": ""}),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
        )
    assert (done.returncode, done.stderr) == (2, "drumline: no more\n")


def test_a_traceback_that_cannot_be_written_leaves_the_exit_code():
    program = (
        "import sys\nfrom drumline.commands.outcome import ended\n"
        "def command(line):\n    raise KeyError('fault')\n"
        "sys.exit(ended(command, None))\n"
    )
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-c", program], stderr=full, timeout=120)
    assert done.returncode == 3


def test_a_sign_that_the_encoding_lacks_is_no_failure(tmp_path: Path):
    done = drumline("--help", cwd=tmp_path, changes={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "drumline COMMAND \\u2026" in done.stdout


@pytest.mark.parametrize(
    ("method", "flags"),
    [
        ("es", "--hidden 4 --population-size 4 --noise-table-size 4096 --workers 1"),
        ("td3", "--hidden 4 --random-steps 5 --steps-per-update 10 --batch-size 4"),
        ("a2c", "--num-envs 2 --alpha 8 --pool inline"),
    ],
)
def test_a_fault_in_a_later_episode_fails_the_run_with_its_place(
    terminal: Terminal, method: str, flags: str
):
    Path("faults.py").write_text(
        "from late_fault_environment import Late\n\n\ndef short():\n    return Late('short')\n"
    )
    words = f"{flags} --total-steps 200 --evaluate-every 0 --evaluate-episodes 1 --out run".split()
    ended = terminal("train", method, "faults:short", *words)
    assert ended.code == 3
    assert "the observation is an array of shape [1] in" in ended.err
    assert "Traceback" not in ended.err
