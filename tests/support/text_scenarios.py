"""Conversations in the text protocol as data: `tests/scenarios/text/*.txt`.

A line `> …` is said, the line `< …` behind it is the one reply, to the letter; `#` begins a remark.
`{1}` is the end of a subscription's id, whatever stands there where it is first told; `{now}` any
time; `{t}` what keeps the topics of one run apart from those of another; `{esc}` and `{space}` are
those characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parents[1] / "scenarios" / "text"
SCENARIOS = tuple(sorted(each.stem for each in FOLDER.glob("*.txt")))
ONLY_COORDINATOR = "between_brokers"
"""Is said to the broker that coordinates its group."""

_ID = re.compile(r"\\\{(\d)\\\}")


class Exchange(NamedTuple):
    """A line and its reply, as the file has them."""

    said: str
    expected: str


def read(name: str) -> list[Exchange]:
    """Raises ValueError for a file in which lines and replies do not take turns."""
    lines = (FOLDER / f"{name}.txt").read_text().splitlines()
    lines = [each for each in lines if not each.startswith("#")]
    said, replies = lines[::2], lines[1::2]
    if len(said) != len(replies) or not all(
        line[:1] == ">" and reply[:2] == "< " for line, reply in zip(said, replies, strict=True)
    ):
        raise ValueError(f"{name}.txt: each line that begins with > has its reply behind <")
    return [Exchange(a[2:], b[2:]) for a, b in zip(said, replies, strict=True)]


def play(name: str, say: Callable[[str], str], topics: str = "") -> None:
    """Say all of it; AssertionError names the line whose reply is another."""
    known = {"{t}": topics, "{esc}": "\x1b", "{space}": " "}
    for exchange in read(name):
        line = filled(exchange.said, known)
        reply = say(line)
        pattern = re.escape(filled(exchange.expected, known)).replace(r"\{now\}", r"\d+")
        names = _ID.findall(pattern)
        found = re.fullmatch(_ID.sub("([0-9a-f]{8})", pattern), reply)
        assert found, f"{name}.txt: {line}\n  expected {exchange.expected}\n  was told {reply}"
        known |= {f"{{{n}}}": end for n, end in zip(names, found.groups(), strict=True)}


def filled(text: str, known: dict[str, str]) -> str:
    """With what the placeholders stand for, as far as that is known."""
    for name, value in known.items():
        text = text.replace(name, value)
    return text
