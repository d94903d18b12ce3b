"""One page about runs: what is in it, what was checked, and that it stands alone."""

import html
import json
import shlex
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from campaigns import FAULTS
from display.contribution_rows import HEADER, ROWS
from typed_commands import Terminal

from drumline.commands.report import same_again
from drumline.runs.fingerprints import chain_header, chain_start, next_row, row_line
from drumline.runs.folder import RunFolder
from drumline.runs.policy_files import write_policy
from drumline.runs.timeline import write_timeline
from drumline.types import Span

METRICS = "update,env_steps,wall_seconds,episode_return_mean\n"
EVALUATIONS = "update,env_steps,episodes,mean,standard_error,minimum,maximum,returns,lengths\n"


def recorded(
    name: str, seed: int = 0, std: float = 0.1, promise: str = "the same bits"
) -> RunFolder:
    """A run of three updates, evaluated at 5, 9 and 7."""
    document = {
        "config": {"env": "CartPole-v1", "seed": seed, "std": std},
        "promise": promise,
        "versions": {"numpy": "2.4"},
        "machine": {"processor": "Abacus <3"},
    }
    folder = RunFolder.create(
        Path(name), method="es", env_id="CartPole-v1", seed=seed, document=document
    )
    rows = [f"{i},{1000 * i},{i / 2},{i}.0\n" for i in (1, 2, 3)]
    folder.metrics_csv.write_text(METRICS + "".join(rows))
    rows = [
        f"{i},{1000 * i},2,{mean}.0,1.0,{mean - 1}.0,{mean + 1}.0,{mean - 1}.0;{mean + 1}.0,9;9\n"
        for i, mean in ((1, 5), (2, 9), (3, 7))
    ]
    folder.evaluations_csv.write_text(EVALUATIONS + "".join(rows))
    lines, head = [chain_header(["parameters"])], chain_start(["parameters"])
    for update in (1, 2, 3):
        row = next_row(head, update, {"parameters": np.full(2, seed + update)}, ["parameters"])
        lines.append(row_line(row))
        head = row.chained
    folder.fingerprints_csv.write_text("\n".join(lines) + "\n")
    write_policy(folder, "last", {"parameters": np.zeros(2)}, {"format": 1})
    return folder


class Page(HTMLParser):
    """Texts of a page, and the sources of its pictures."""

    def __init__(self, path: str = "report.html"):
        super().__init__()
        self.text: list[str] = []
        self.sources: list[str] = []
        self.tags: set[str] = set()
        self.marks: dict[str, list[str]] = {}
        self._mark = ""
        self.html = Path(path).read_text()
        self.feed(self.html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        found = dict(attrs)
        self.sources += [str(found[name]) for name in ("src", "href") if name in found]
        if tag == "li":
            self._mark = str(found["class"])

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.text.append(data)
            if self._mark:
                self.marks.setdefault(self._mark, []).append(data)
        self._mark = ""


def test_one_run_is_reported_with_its_interval_its_promise_and_its_machine(terminal: Terminal):
    recorded("a")
    ended = terminal("report", "a")
    assert (ended.code, ended.out) == (0, "report.html\n"), ended.err
    page = Page()
    assert "es on CartPole-v1" in page.text
    outcome = page.text[page.text.index("Outcome") :]
    # 6 and 8: the mean 7 ± t(1; 0.975) · √2/√2 = 12.71.
    cells = ["a", "0", "7.000", "-5.706 to 19.71", "2", "9.000", "2.000", "3,000", "3", "0:02"]
    assert outcome[11 : 11 + len(cells)] == cells
    assert any(text.endswith("the same bits") for text in page.text)
    assert {"std", "0.1", "numpy", "2.4", "Abacus <3"} <= set(page.text)
    chain, policy = page.marks["yes"]
    assert chain.startswith("the hash chain holds over 3 updates and ends in ")
    assert policy == "policy-last holds the bytes that were written"
    assert page.marks["open"] == ["not repeated for this page; to repeat it: drumline verify a"]


def test_the_page_needs_nothing_from_elsewhere_and_is_the_same_each_time(terminal: Terminal):
    recorded("a")
    recorded("b", seed=1)
    terminal("report", "a", "b")
    page = Page()
    assert len(page.sources) == 3
    assert all(source.startswith("data:image/svg+xml;base64,") for source in page.sources)
    assert not {"link", "iframe"} & page.tags
    assert page.html.count("<script") == 1
    assert (
        "default-src 'none'" in page.html
    )  # the page's policy: nothing is loaded, no other script
    terminal("report", "a", "b")
    assert Page().html == page.html


def test_what_differs_between_runs_is_said_run_by_run_and_groups_have_a_row(terminal: Terminal):
    for seed in (0, 1):
        recorded(f"a{seed}", seed)
    recorded("b", 0, std=0.2)
    assert terminal("report", "a0", "a1", "b", "--out=r.html").code == 0
    text = Page("r.html").text
    settings = text[text.index("Settings") :]
    assert settings[1:13] == [
        "run",
        "seed",
        "std",
        "a0",
        "0",
        "0.1",
        "a1",
        "1",
        "0.1",
        "b",
        "0",
        "0.2",
    ]
    groups = text[text.index("Groups") : text.index("The promise")]
    assert "es CartPole-v1 std=0.1" in groups
    assert "es CartPole-v1 std=0.2" in groups


def test_a_run_from_before_a_setting_is_grouped_with_those_that_left_it_out(terminal: Terminal):
    late = {"final_entropy_coefficient": None, "anneal_clip": False}
    for seed, settings in enumerate(({}, late)):
        folder = recorded(f"a{seed}", seed)
        config = {**folder.document["config"], "num_envs": 16, **settings}
        folder.update_document(method="ppo", config=config)
    assert terminal("report", "a0", "a1").code == 0
    text = Page().text
    groups = text[text.index("Groups") : text.index("The promise")]
    assert groups[groups.index("drawdown") + 1 :][:2] == ["ppo CartPole-v1", "2"]
    assert text[text.index("Settings") :][1:7] == ["run", "seed", "a0", "0", "a1", "1"]


def test_damage_and_runs_that_should_be_the_same_and_are_not_are_marked(terminal: Terminal):
    folder = recorded("a")
    shutil.copytree("a", "same")
    shutil.copytree("a", "other")
    lines = recorded("elsewhere", seed=1).fingerprints_csv.read_bytes()
    Path("other/fingerprints.csv").write_bytes(lines)
    shutil.copytree("a", "torn")
    text = Path("torn/fingerprints.csv").read_text()
    Path("torn/fingerprints.csv").write_text(text.replace("2,", "7,", 1))
    weights = folder.policy_tensors("last").read_bytes()
    folder.policy_tensors("last").write_bytes(weights[:-1] + b"\x01")
    assert terminal("report", "a", "same", "other", "torn").code == 0
    marks = Page().marks
    assert any("policy-last.safetensors is damaged" in words for words in marks["no"])
    assert "the same bits as same in the updates that both have" in marks["yes"]
    differs = "differs from other, of the same config and seed, first at update 1 in parameters"
    assert differs in marks["no"]
    assert any("fingerprints.csv is damaged" in words for words in marks["no"])


def test_a_strangers_names_are_no_markup(terminal: Terminal):
    folder = recorded("<b>bold")
    config = {**folder.document["config"], "<i>": "</table><script>alert(1)</script>"}
    folder.update_document(config=config)
    assert terminal("report", "<b>bold").code == 0
    page = Page()
    assert "i" not in page.tags
    assert page.html.count("<script") == 1
    assert "<script>alert" not in page.html
    assert "</table><script>alert(1)</script>" in page.text


@FAULTS
def test_individuals_of_aes_are_drawn_too(terminal: Terminal):
    folder = recorded("a")
    lines = (HEADER + ROWS).splitlines()
    rows = [f"{line},{'episode_return_mean' if i == 0 else 1.0}" for i, line in enumerate(lines)]
    folder.metrics_csv.write_text("\n".join(rows) + "\n")
    assert terminal("report", "a").code == 0
    page = Page()
    assert "Contribution of either kind of individual" in page.text
    assert len(page.sources) == 3


def test_two_runs_of_one_folder_name_are_told_apart(terminal: Terminal):
    recorded("a/run")
    recorded("b/run", std=0.2)
    assert terminal("report", "a/run", "b/run").code == 0
    assert {"es CartPole-v1 std=0.1", "es CartPole-v1 std=0.2"} <= set(Page().text)


def test_contributions_are_drawn_apart_for_each_environment(terminal: Terminal):
    for name, environment in (("a", "CartPole-v1"), ("b", "Pendulum-v1")):
        folder = recorded(name)
        folder.update_document(config={**folder.document["config"], "env": environment})
        head, *rows = (HEADER + ROWS).splitlines()
        lines = [f"{head},episode_return_mean", *(f"{row},1.0" for row in rows)]
        folder.metrics_csv.write_text("\n".join(lines) + "\n")
    assert terminal("report", "a", "b").code == 0
    text = Page().text
    drawn = text[text.index("Contribution of either kind of individual") :]
    assert drawn[1:3] == ["CartPole-v1", "Pendulum-v1"]


def test_damage_of_the_processes_leaves_their_table_out(terminal: Terminal):
    folder = recorded("a")
    folder.metrics_csv.write_text(
        "update,env_steps,wall_seconds,episode_return_mean,policy_lag,policy_lag_max,"
        "gradient_step_lag\n1,64,0.5,1.0,1.0,1.0,1.0\n"
    )
    processes = "role,index,pid,tasks,progress,busy_seconds,restarts\n"
    folder.processes_csv.write_text(processes + "learner,0,4,3,3,0.9,0\n")
    assert "Speed, lag and batches" in report_of(terminal)
    folder.processes_csv.write_text(processes + "learner,0,1executor,0,1,3,96,0.8,0\n")
    assert "Speed, lag and batches" not in report_of(terminal)


def test_a_damaged_timeline_is_said_and_the_rest_of_the_page_stays(terminal: Terminal):
    terminal.train("es", "CartPole-v1", "--out=runs/one")
    (Path("runs/one") / "timeline.json").write_text("{")
    assert terminal("report", "runs/one").code == 0
    page = Path("report.html").read_text()
    assert "timeline.json is damaged" in page
    assert "<canvas" not in page
    assert "<h2>Curves</h2>" in page


def test_a_page_says_of_which_time_its_shares_are(terminal: Terminal):
    folder = recorded("a")
    learner = [Span("learner", 0, float(t), t + 0.5, 1) for t in range(10)]
    write_timeline(folder.timeline_json, [*learner, Span("executor", 0, 8.0, 9.9, 1)])
    page = report_of(terminal)
    assert "This is about the last 0:02 of the session's 0:10" in page
    assert "The executor bounds the speed" in page


def test_updates_are_repeated_on_demand(terminal: Terminal):
    terminal.train("es", "CartPole-v1", "--out=a")
    assert terminal("report", "a", "--verify=1").code == 0
    assert "1 updates repeated on 3 workers: the same bits" in Page().marks["yes"]


@FAULTS
def test_a_run_of_two_environments_is_repeated_on_two_workers(terminal: Terminal):
    small = ["--num-envs=2", "--alpha=8", "--epochs=1", "--minibatches=2", "--hidden", "4"]
    more = ["--total-steps=32", "--evaluate-episodes=1", "--pool=inline", "--quiet", "--out=run"]
    small += ["--engine=gymnasium"]  # EnvPool takes as long to import as the run itself
    assert terminal("train", "hts", "CartPole-v1", *small, *more).code == 0
    done = terminal("report", "run", "--verify=2")
    assert done.code == 0, done.err
    assert "2 updates repeated on 2 workers: the same bits" in Path("report.html").read_text()
    assert (
        terminal("verify", "run", "--updates=1").out == "equal: 1 updates repeated on 2 workers\n"
    )


def test_a_run_without_promise_says_so_and_is_not_repeated(terminal: Terminal):
    recorded("a", promise="no promise: it is free")
    config = json.loads(Path("a/config.json").read_text())
    assert config["promise"] == "no promise: it is free"
    shutil.copytree("a", "b")
    assert terminal("report", "a", "b").code == 0
    page = Page()
    assert any("no promise: it is free" in text for text in page.text)
    assert any(words.startswith("not compared with b: no promise") for words in page.marks["open"])


@pytest.mark.parametrize(("names", "message"), [((), "at least one RUN"), (("a",), "no updates")])
def test_nothing_to_report_is_wrong_use(terminal: Terminal, names: tuple[str, ...], message: str):
    recorded("a").metrics_csv.write_text(METRICS)
    ended = terminal("report", *names)
    assert ended.code == 2
    assert message in ended.err


@pytest.mark.parametrize(
    "words",
    [
        "es CartPole-v1 --hidden 4 5 --no-normalize --std 0.3 --seed 7",
        "hts CartPole-v1 --no-anneal --hidden 8",
        "hts CartPole-v1 --learner a2c",
        "hts HalfCheetah-v5 --learner a2c --alpha 7",
        "aes Pendulum-v1 --mean-rule sigmoid --fitness-range 9",
        "es HalfCheetah-v5",
    ],
)
def test_the_command_of_the_page_begins_the_same_run(terminal: Terminal, words: str):
    config = json.loads(terminal("train", *words.split(), "--print-config").out)
    folder = recorded("a")
    folder.update_document(method=words.split()[0], config=config)
    again = same_again(folder)
    assert f"<code>{html.escape(again)}</code>" in report_of(terminal)
    _, *typed = shlex.split(again)
    assert json.loads(terminal(*typed, "--print-config").out) == config


def test_a_prolonged_run_is_made_again_in_its_parts(terminal: Terminal):
    config = json.loads(terminal("train", "ppo", "CartPole-v1", "--print-config").out)
    folder = recorded("a")
    folder.update_document(
        method="ppo",
        config={**config, "total_steps": 9_000},
        horizons=[[0, 2_048], [4, 9_000]],
    )
    first, then = same_again(folder).splitlines()
    assert " --total-steps 2048 " in first
    assert then == "drumline resume a --total-steps 9000  # after update 4"
    assert then in report_of(terminal)


def test_updates_to_repeat_are_none_or_more(terminal: Terminal):
    recorded("a")
    ended = terminal("report", "a", "--verify=-1")
    assert ended.code == 2
    assert "--verify must be 0 (no repetition) or more updates, got -1" in ended.err


def report_of(terminal: Terminal) -> str:
    assert terminal("report", "a").code == 0
    return Page().html


def test_groups_say_what_a_final_score_is_and_take_one_evaluation_for_it(terminal: Terminal):
    for name, seed in (("a", 0), ("b", 1)):
        folder = recorded(name, seed)
        lines = folder.evaluations_csv.read_text().splitlines(keepends=True)
        folder.evaluations_csv.write_text(lines[0] + lines[-1])
    assert terminal("report", "a", "b").code == 0
    page = Path("report.html").read_text().replace("&#x27;", "'")
    assert "final: mean return of a run's last evaluation" in page
    assert "best so far of training returns" in page
    (compared,) = json.loads(terminal("compare", "a", "b", "--json").out)["groups"]
    assert compared["final"]["iqm"] == 7.0
    cells = page[page.index("<h2>Groups") :]
    assert ">7.000<" in cells[: cells.index("</table>")]
