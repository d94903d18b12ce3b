from dataclasses import replace
from pathlib import Path

from runs.runs_examples import example_evaluation, new_folder

from drumline.runs.card import RunCard, card_text, write_card


def card(promise: str) -> RunCard:
    return RunCard(
        promise=promise,
        method="es",
        env_id="HalfCheetah-v5",
        seed=3,
        config={"std": 0.02, "names": ["a|b"]},
        verify_command="drumline verify runs/x",
        machine={"cpu": "EPYC"},
        best_evaluation=example_evaluation(4),
        fingerprint="abc",
    )


def test_promise_comes_first():
    for promise in ("The same bits for any layout.", "no promise: free running"):
        assert card_text(card(promise)).splitlines()[0] == promise


def test_card_holds_what_is_needed_to_check_it():
    text = card_text(card("p"))
    for part in ("drumline verify runs/x", "seed 3", "| std | 0.02 |", "EPYC", "abc", "update 4"):
        assert part in text
    assert "a\\|b" in text
    assert "Versions" not in text


def test_the_largest_drawdown_is_on_the_card_where_one_is_known():
    assert "drawdown" not in card_text(card("p"))
    fell = replace(card("p"), largest_drawdown=12.5)
    assert "| largest drawdown | 12.5 below the best evaluation so far |" in card_text(fell)


def test_card_is_written_into_the_folder(tmp_path: Path):
    folder = new_folder(tmp_path / "run")
    write_card(folder, card("p"))
    assert folder.card_md.read_text() == card_text(card("p"))
