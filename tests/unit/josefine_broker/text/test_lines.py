"""Lines come out the same however their bytes are cut, and in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.text.lines import LineBuffer

LINE_BYTES_MAX = 8
TOO_LONG = "too long"


def lines_of(pieces: Sequence[bytes], *, at_once: bool = False) -> list[bytes | str]:
    """Every line; those that were too long as TOO_LONG. `at_once`: taken only at the end."""
    buffer = LineBuffer(LINE_BYTES_MAX)
    found: list[bytes | str] = []
    for number, piece in enumerate(pieces, 1):
        buffer.feed(piece)
        while number == len(pieces) or not at_once:
            try:
                line = buffer.take()
            except OverflowError:
                found.append(TOO_LONG)
                continue
            if line is None:
                break
            found.append(line)
    return found


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"half", []),
        (b"\n", [b""]),
        (b"\r\n", [b""]),
        (b"a\nb\r\n\nc", [b"a", b"b", b""]),
        (b"a\rb\r\r\n", [b"a\rb\r"]),
        (b"12345678\nx\n", [b"12345678", b"x"]),
        (b"123456789\nx\n", [TOO_LONG, b"x"]),
        (b"x" * 100_000 + b"\n\n", [TOO_LONG, b""]),
    ],
)
def test_line_ends_with_lf_or_crlf_and_a_long_one_is_told_once(
    data: bytes, lines: list[bytes | str]
) -> None:
    assert lines_of([data]) == lines
    assert lines_of([data[at : at + 1] for at in range(len(data))]) == lines


@given(st.lists(st.text("ab\r\n", max_size=30).map(str.encode)), st.booleans())
def test_cuts_change_nothing(pieces: list[bytes], at_once: bool) -> None:
    assert lines_of(pieces, at_once=at_once) == lines_of([b"".join(pieces)])


def test_endless_line_takes_no_memory() -> None:
    buffer = LineBuffer(LINE_BYTES_MAX)

    for _ in range(1_000):
        buffer.feed(b"x" * 1_000)
        assert buffer.take() is None
        assert len(buffer) <= LINE_BYTES_MAX
