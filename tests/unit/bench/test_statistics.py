"""Ratios and spreads of alternating rounds."""

import pytest

from tests.bench.report.statistics import is_rate, is_worse, ratios, spread_of


def test_ratio_above_one_is_better_for_rates_and_for_costs() -> None:
    assert ratios([200.0], [100.0], "MB/s") == [2.0]
    assert ratios([100.0], [200.0], "ms") == [2.0]
    assert all(map(is_rate, ("MB/s", "transactions/s", "done/s", "offsets/CPU s")))
    assert not any(map(is_rate, ("s/GB", "µs/request", "% of a core", "s per million rows")))


def test_rounds_are_paired_before_the_median_is_taken() -> None:
    ours, theirs = [10.0, 100.0, 40.0], [5.0, 50.0, 80.0]

    assert ratios(ours, theirs, "records/s") == [2.0, 2.0, 0.5]
    assert spread_of(ratios(ours, theirs, "records/s")).middle == 2.0


def test_round_without_a_measurable_value_has_no_ratio() -> None:
    assert ratios([0.0, 2.0], [1.0, 4.0], "% of a core") == [2.0]
    assert ratios([1.0], [], "ms") == []


def test_spread_is_the_whole_range_of_few_rounds_and_quartiles_of_many() -> None:
    few, many = spread_of([3.0, 1.0, 2.0]), spread_of([1.0, 2.0, 3.0, 4.0, 100.0])

    assert (few.low, few.middle, few.high, few.rounds) == (1.0, 2.0, 3.0, 3)
    assert (many.low, many.middle, many.high, many.rounds) == (2.0, 3.0, 4.0, 5)


def test_spread_of_no_round_is_refused() -> None:
    with pytest.raises(ValueError, match="one round at least"):
        spread_of([])


def test_measure_is_worse_only_below_the_threshold_and_in_most_rounds() -> None:
    assert is_worse([0.8, 0.85, 0.7], 0.9)
    assert not is_worse([0.95, 0.92, 0.97], 0.9)
    assert not is_worse([0.5, 0.8, 1.2], 0.9)
    assert not is_worse([], 0.9)
