"""`drumline check-env ENV`: what it finds, and the sentence that names the fix."""

import json
import os
import re
from typing import Any

import numpy as np
import pytest
from typed_commands import Terminal, said_command

from drumline.commands.environment_findings import (
    CONTINUOUS,
    EVERY,
    LEARNED,
    ROLLED_OUT,
    SEARCHED,
)
from drumline.recipes.methods import METHODS
from drumline.training.layout import Layout
from drumline.workers.random_episode import Trace

SHORT = ("--steps=30", "--seconds=0.05", "--json")
FAULTS = {
    "Remembers": ("seeding", r"gave another reward at step 1: it keeps state that reset\(seed=…\)"),
    "normalized": (
        "seeding",
        r"NormalizeReward keeps.*--scale-rewards.*NormalizeObservation keeps",
    ),
    "fixed": ("seeding", r"it keeps state that reset\(seed=…\).*super\(\)\.reset\(seed=seed\)$"),
    "DrawsNumPy": ("global state", "the global generator of NumPy: draw from self.np_random"),
    "DrawsPython": ("global state", "the global generator of Python's random"),
    "Shares": ("global state", "in turn with another instance .* the instances share state"),
    "KnowsItsProcess": ("worker", "in another process, it gave another reward at step 1"),
    "NoSeed": ("api", r"reset\(\) takes no seed.*write def reset\(self, \*, seed=None"),
    "NoSpace": ("make", "it has no observation_space: set self.observation_space in __init__"),
    "OtherSpace": ("make", "is a _thread._local, no space of Gymnasium"),
    "Raises": ("api", r"raised RuntimeError: the cart fell off the table \(.*environments.py, li"),
    "NaN": ("api", "the observation of step 3 is not finite"),
    "Words": ("spaces", "has Text actions"),
    "Blind": ("spaces", r"has observations of shape \[0\], which hold no number"),
    "Idle": ("spaces", r"has actions of shape \[0\], which hold no number"),
}
NOTES = {
    "Far": ("api", "returned an observation outside the observation_space"),
    "Endless": ("episodes", r"no episode ended in [\d,]+ steps, and there is no time limit"),
    "Choices": ("spaces", "not for es, ars, aes.* train it with hts, a2c, ppo or impala"),
    "Pictures": ("spaces", "put their 3,072 values into an MLP.*36 x 36 pixels or more: wrap"),
    "Sleeps": ("threads", "its steps wait for .* of their time"),
}


def checked(terminal: Terminal, name: str, *words: str) -> tuple[int, dict[str, Any]]:
    ended = terminal("check-env", f"faulty_environments:{name}", *SHORT, *words)
    return ended.code, json.loads(ended.out)


def said(document: dict[str, Any], verdict: str) -> list[tuple[str, str]]:
    rows = document["checks"]
    return [(row["check"], row["sentence"]) for row in rows if row["verdict"] == verdict]


def test_a_good_environment_passes_every_check(terminal: Terminal):
    code, document = checked(terminal, "Good")
    assert code == 0
    assert document["passed"]
    assert not said(document, "fault")
    names = [check for check, _ in said(document, "ok")]
    assert names[:6] == ["spaces", "api", "seeding", "global state", "worker", "speed"]
    assert names[-1] == "episodes"
    assert document["promise_kept_by"] == [m for m in EVERY if m != "impala"]
    assert document["measured"]["mean_length"] == 12.0
    assert document["measured"]["env_steps_per_second"] > 0


def test_a_reset_may_take_all_of_the_time(terminal: Terminal):
    code, document = checked(terminal, "SlowReset")
    assert code == 0
    assert document["measured"]["reset_seconds"] > 0.05


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_with_what_to_change(terminal: Terminal, name: str):
    code, document = checked(terminal, name)
    check, words = FAULTS[name]
    assert (code, document["passed"]) == (2, False)
    ((found, sentence),) = said(document, "fault")
    assert found == check
    assert re.search(words, sentence), sentence


@pytest.mark.parametrize("name", NOTES)
def test_what_training_would_do_badly_is_noted(terminal: Terminal, name: str):
    code, document = checked(terminal, name)
    check, words = NOTES[name]
    assert code == 0
    assert [s for c, s in said(document, "note") if c == check and re.search(words, s)]


def test_methods_that_could_keep_the_promise_are_named(terminal: Terminal):
    _, document = checked(terminal, "DrawsNumPy")
    assert set(document["no_promise"]) == set(ROLLED_OUT)
    assert document["promise_kept_by"] == [*SEARCHED, *LEARNED, *CONTINUOUS]
    _, document = checked(terminal, "Choices")
    assert document["promise_kept_by"] == [m for m in ROLLED_OUT if m != "impala"]
    _, document = checked(terminal, "Remembers")
    assert document["promise_kept_by"] == []


def test_an_environment_that_ends_its_worker_is_a_fault(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LIVES_IN", str(os.getpid()))
    code, document = checked(terminal, "Dies")
    assert code == 2
    ((check, sentence),) = said(document, "fault")
    assert check == "worker"
    assert "it ends its process" in sentence
    assert "exit code 7" in sentence


def test_the_page_has_a_line_a_finding_and_the_next_command(terminal: Terminal):
    ended = terminal("check-env", "faulty_environments:Choices", "--seconds", "0.05")
    lines = ended.out.splitlines()
    assert lines[0] == "faulty_environments:Choices (gymnasium)"
    assert lines[1].startswith("ok    spaces        observations Box")
    assert lines[-2] == "the promise can be kept by: hts, a2c, ppo"
    assert lines[-1] == "next: drumline train hts faulty_environments:Choices"
    ended = terminal("check-env", "faulty_environments:Endless", "--seconds", "0.05")
    assert ended.out.splitlines()[-1].endswith("Endless --max-episode-steps 1000")


def test_the_families_are_all_methods():
    assert sorted(EVERY) == sorted(METHODS)


def test_methods_with_gradients_refuse_discrete_actions_as_is_noted(terminal: Terminal):
    refused: dict[str, str] = {}
    for name in (*LEARNED, *CONTINUOUS):
        method = METHODS[name]
        try:
            method.built(method.made("CartPole-v1", engine="gymnasium"), Layout(pool="inline"))
        except ValueError as problem:
            refused[name] = str(problem)
    document = json.loads(terminal("check-env", "CartPole-v1", *SHORT).out)
    assert document["not_served"] == refused
    assert list(refused) == ["erl"]
    assert "erl" not in document["promise_kept_by"]


@pytest.mark.parametrize("words", [("a", "b"), (), ("CartPole-v1", "--steps", "0")])
def test_a_wrong_command_line_is_refused(terminal: Terminal, words: tuple[str, ...]):
    assert terminal("check-env", *words).code == 2


def test_the_generators_of_the_caller_stay_as_they_were(terminal: Terminal):
    np.random.seed(3)
    expected = np.random.random()
    np.random.seed(3)
    checked(terminal, "DrawsNumPy")
    assert np.random.random() == expected


def test_a_trace_that_is_shorter_differs_where_it_ends():
    long = Trace([b"a", b"b"], [b"1"], [(False, False)])
    assert Trace([b"a"]).first_difference(long) == "reward at step 1"
    assert long.first_difference(Trace([b"a", b"b"], [b"1"], [(True, False)])) == "end at step 1"


def test_observations_in_parts_are_checked_with_the_flag_that_makes_them_one(terminal: Terminal):
    refused = terminal("check-env", "impure_environment:Parts", "--seconds=0.01")
    assert refused.code == 2
    assert "give --flatten-observations" in refused.out
    flag = "--flatten-observations"
    passed = terminal("check-env", "impure_environment:Parts", flag, "--seconds=0.01")
    assert passed.code == 0
    assert f"next: drumline train es impure_environment:Parts {flag}" in passed.out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["arguments_environment:Scaled", "--env-kwargs", '{"scale": 3.5}'],
            {"env_kwargs": '{"scale": 3.5}', "engine": "gymnasium"},
        ),
        (["CartPole-v1", "--engine=envpool"], {"env_kwargs": "", "engine": "envpool"}),
    ],
)
def test_the_next_command_trains_in_the_environment_that_was_checked(
    terminal: Terminal, words: list[str], expected: dict[str, str]
):
    checked = terminal("check-env", *words, "--steps=20", "--seconds=0.01")
    assert checked.code == 0, checked.out
    config = json.loads(terminal.line(f"{said_command(checked.out)} --print-config").out)
    assert {name: config[name] for name in expected} == expected
