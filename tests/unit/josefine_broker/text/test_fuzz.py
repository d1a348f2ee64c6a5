"""Any bytes, cut anywhere: the same answers, one for each line, and never an exception."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.text.commands import COMMANDS, HTTP_WORDS
from tests.unit.josefine_broker.api.world import World
from tests.unit.josefine_broker.text.client import README_MESSAGE, TextClient, front_of

LINE_BYTES_MAX = 200
WORDS = st.sampled_from(
    [*COMMANDS, "disc", "GET", "t", "u", "g", "h", "0", "1", "-1", "x", "", '""', '"', '"a b"',
     "{}", '{"Body":"b"}', README_MESSAGE, "g-0-0ed90475", "é", "x" * 300]
)  # fmt: skip
LINES = st.one_of(
    st.lists(WORDS, max_size=5).map(lambda words: " ".join(words).encode()),
    st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"")),
)
TEXT = st.lists(
    st.tuples(LINES, st.sampled_from([b"\n", b"\n", b"\r\n"])).map(b"".join), max_size=20
).map(b"".join)
CUTS = st.lists(st.integers(0, 3_000), max_size=10)


def replies(pieces: list[bytes]) -> tuple[list[str], bool]:
    """What a new broker says to these bytes, and whether it hung up."""
    world = World()
    client = TextClient(front_of(world, line_bytes_max=LINE_BYTES_MAX), world.advance)
    found = [reply for piece in pieces for reply in client.send(piece)]
    return found, client.session.is_closed


@settings(max_examples=60, deadline=None)
@given(TEXT, CUTS, st.binary(max_size=20))
def test_cuts_change_no_answer_and_every_line_has_one(
    text: bytes, cuts: list[int], rest: bytes
) -> None:
    """Checklist rows 50 and 96: the text protocol's part."""
    data = b"CRTP t 2\n" + text + rest.replace(b"\n", b"")
    places = sorted({0, len(data), *(each for each in cuts if each < len(data))})
    pieces = [data[a:b] for a, b in itertools.pairwise(places)]

    answers, has_hung_up = replies([data])

    assert replies(pieces) == (answers, has_hung_up)
    assert replies([data[at : at + 1] for at in range(len(data))]) == (answers, has_hung_up)
    assert all(each and "\n" not in each and "\r" not in each for each in answers)
    if has_hung_up:
        assert len(answers) <= data.count(b"\n")
    else:
        assert len(answers) == data.count(b"\n")


def test_words_of_the_fuzzer_end_a_connection_too() -> None:
    assert "GET" in HTTP_WORDS
    assert replies([b"CRTP t\nDISC\nCRTP u\n"]) == (["Done", "Done"], True)
