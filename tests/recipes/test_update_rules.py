"""Rule names, and which pairs are legal."""

import math

import pytest

from drumline.recipes.update_rules import (
    MEAN_RULES,
    VARIANCE_RULES,
    RuleNumbers,
    make_update_rules,
)

NUMBERS = RuleNumbers(fitness_range=10.0, fitness_baseline=-10.0)


def test_all_pairs_are_legal_except_rank_with_welford():
    for mean in MEAN_RULES:
        for variance in VARIANCE_RULES:
            if mean == "rank" and variance.startswith("welford-"):
                with pytest.raises(
                    ValueError, match="with 'rank' it must be one of one-fifth, rank"
                ):
                    make_update_rules(mean, variance, NUMBERS)
            else:
                rules = make_update_rules(mean, variance, NUMBERS)
                assert rules.archive_size == (10 if "rank" in (mean, variance) else 0)


@pytest.mark.parametrize(
    ("pair", "flag"),
    [(("relativ", "rank"), "--mean-rule"), (("relative", "welford"), "--variance-rule")],
)
def test_an_unknown_name_is_refused_with_its_flag_and_those_there_are(
    pair: tuple[str, str], flag: str
):
    with pytest.raises(ValueError, match=rf"{flag} must be one of .*rank"):
        make_update_rules(*pair, NUMBERS)


@pytest.mark.parametrize(
    ("pair", "numbers", "message"),
    [
        (("relative", "rank"), RuleNumbers(0.0, 0.0), "fitness_range must be above 0"),
        (("rank", "rank"), RuleNumbers(1.0, 0.0, range_spread=2.0), "--range-spread goes with"),
        (("linear", "rank"), RuleNumbers(0.0, 0.0, range_spread=2.0), "fitness_range must be"),
        (
            ("linear", "rank"),
            RuleNumbers(1.0, 0.0, range_spread=math.inf),
            "multiple of",
        ),
        (("linear", "rank"), RuleNumbers(1.0, 0.0, negative_ratio=2.0), "negative_ratio"),
        (("rank", "rank"), RuleNumbers(1.0, 0.0, elites=11), "elites must be 1 to archive_size 10"),
        (
            ("relative", "welford-fixed"),
            RuleNumbers(1.0, 0.0, welford_samples=0.5),
            "--welford-samples",
        ),
        (("relative", "rank"), RuleNumbers(1.0, 0.0, damp=0.0), "damp and damp_limit"),
        (("relative", "rank"), RuleNumbers(1.0, 0.0, damp_decay=1.5), "damp_decay"),
        (("relative", "one-fifth"), RuleNumbers(1.0, 0.0, success_window=0), "success window"),
    ],
)
def test_a_number_that_a_rule_cannot_use_is_refused_before_the_run(
    pair: tuple[str, str], numbers: RuleNumbers, message: str
):
    with pytest.raises(ValueError, match=message):
        make_update_rules(*pair, numbers)
