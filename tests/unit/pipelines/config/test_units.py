"""Values with a unit, as a file has them, in the program's units."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.config.units import batches, pauses_ms, size_bytes, time_ms
from tests.unit.pipelines.config.sections import said, section


@pytest.mark.parametrize(
    ("written", "size"),
    [
        *(("1048576", 1 << 20), ("64MiB", 64 << 20), ("64MB", 64 << 20), ("64m", 64 << 20)),
        *(("3k", 3072), ("1GiB", 1 << 30), ("7b", 7), ("7", 7)),
    ],
)
def test_sizes_are_powers_of_1024_however_the_unit_is_written(written, size):
    assert size_bytes(section(f"bytes: {written}", "limit"), "bytes") == size


@given(st.integers(1, 10**6), st.sampled_from(["", "b", "k", "K", "kb", "MiB", "m", "g", "GB"]))
def test_a_size_is_its_number_times_its_unit(number, unit):
    power = {"": 0, "b": 0, "k": 10, "m": 20, "g": 30}[unit[:1].lower()]

    found = size_bytes(section(f"bytes: {number}{unit}", "limit"), "bytes")

    assert found == number * 2**power


@pytest.mark.parametrize("written", ["0", "1t", "64 MiB", "1.5g", "9999999999g"])
def test_another_size_is_refused_with_what_is_expected(written):
    reader = section(f"bytes: {written}", "limit")

    assert size_bytes(reader, "bytes") is None
    assert said(reader)[0].endswith(f"found `{written}`")


@pytest.mark.parametrize(("written", "count"), [("1 batch", 1), ("100 batches", 100)])
def test_a_number_of_batches_is_counted_in_batches(written, count):
    assert batches(section(f"every: {written}", "optimize"), "every") == count


@pytest.mark.parametrize("written", ["0 batches", "5", "5 b", "1 batchs", "10000000000 batches"])
def test_no_batch_or_another_unit_is_refused(written):
    reader = section(f"every: {written}", "optimize")

    assert batches(reader, "every") is None
    assert len(reader.problems) == 1


@pytest.mark.parametrize(
    ("written", "pauses"),
    [("5s", (5_000, 5_000)), ("1s..60s", (1_000, 60_000)), ("500ms..1m", (500, 60_000))],
)
def test_pauses_are_the_first_and_the_longest(written, pauses):
    assert pauses_ms(section(f"backoff: {written}", "restart"), "backoff") == pauses


@pytest.mark.parametrize("written", ["0s", "60s..1s", "1s..", "5", "1s...2s"])
def test_pauses_that_shrink_or_are_none_are_refused(written):
    reader = section(f"backoff: {written}", "restart")

    assert pauses_ms(reader, "backoff") is None
    assert len(reader.problems) == 1


def test_a_time_is_milliseconds_since_1970():
    reader = section("timestamp: 2026-01-01T01:00:00+01:00", "start")

    assert time_ms(reader, "timestamp") == 1_767_225_600_000
    wrong = section("timestamp: yesterday", "start")
    assert time_ms(wrong, "timestamp") is None
    assert said(wrong)[0].endswith("found `yesterday`")
