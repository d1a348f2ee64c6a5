"""Lines as they come, and the sign that no more is there now."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_cli.kafka.lines import lines_and_pauses


def expected(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return lines if lines[-1] else lines[:-1]


@given(st.lists(st.sampled_from([b"", b"a", b"bc", b"\r", b"\n", b"\n\n"])).map(b"".join))
def test_lines_of_a_pipe_and_of_memory_are_the_same(data: bytes) -> None:
    reading, writing = os.pipe()
    os.write(writing, data)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        from_pipe = [line for line in lines_and_pauses(pipe) if line is not None]

    assert from_pipe == list(lines_and_pauses(io.BytesIO(data))) == expected(data)


def test_a_line_longer_than_one_read_is_one_line(tmp_path: Path) -> None:
    data = b"x" * 300_000 + b"\n" + b"y" * 70_000
    (tmp_path / "long").write_bytes(data)

    with (tmp_path / "long").open("rb") as file:
        assert list(lines_and_pauses(file)) == [b"x" * 300_000, b"y" * 70_000]


@pytest.mark.timeout(50)
def test_a_pause_is_told_once_and_half_a_line_waits_for_its_end() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        items = lines_and_pauses(pipe)
        os.write(writing, b"one\ntw")
        first, pause = next(items), next(items)
        os.write(writing, b"o\n")
        second = next(items)
        os.close(writing)

        assert [first, pause, second] == [b"one", None, b"two"]
        assert list(items) in ([], [None])


@pytest.mark.timeout(50)
def test_lines_without_a_pause_between_them_wait_no_longer_than_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("josefine_cli.kafka.lines.WAIT_SECONDS_MAX", 0.05)
    monkeypatch.setattr("josefine_cli.kafka.lines.PAUSE_SECONDS", 60)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        items = lines_and_pauses(pipe)
        os.write(writing, b"one\n")

        assert [next(items), next(items)] == [b"one", None]
        os.close(writing)


@pytest.mark.timeout(50)
def test_a_stop_ends_the_input_after_what_was_read() -> None:
    reading, writing = os.pipe()
    stop, stopping = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        items = lines_and_pauses(pipe, stop)
        os.write(writing, b"one\ntwo\nhal")
        first = next(items)
        os.write(stopping, b"x")

        assert [first, *items] == [b"one", b"two"]
    for descriptor in (writing, stop, stopping):
        os.close(descriptor)
