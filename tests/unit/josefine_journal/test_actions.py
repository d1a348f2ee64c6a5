"""The header `journal.action`, against kafka-journal's own files and what they imply."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_journal.actions import (
    Action,
    Append,
    Delete,
    Mark,
    PayloadType,
    Purge,
    SeqRange,
    decode_action,
    encode_action,
)
from josefine_journal.errors import JournalError
from josefine_journal.events import SEQ_NR_MAX, SeqNr

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-journal"
RANGE = SeqRange(first=SeqNr(1), last=SeqNr(5))
ORIGINS = (None, "origin")
METADATA = {"legacy": None, "none": None, "metadata": {"key": "value"}}


def golden_header(name: str) -> bytes:
    return (GOLDEN / f"{name}.json").read_bytes()


def implied(kind: str, origin: str | None, fields: dict[str, object]) -> bytes:
    """A header as the files would have it, had upstream kept that variant."""
    named = {} if origin is None else {"origin": origin}
    return json.dumps({kind: {**named, **fields}}).encode()


def append_header(origin: str | None, kind: PayloadType, metadata: str) -> bytes:
    fields: dict[str, object] = {"range": {"from": 1, "to": 5}, "payloadType": kind.value}
    if metadata != "legacy":
        data = METADATA[metadata]
        fields["metadata"] = {} if data is None else {"data": data}
    return implied("append", origin, fields)


APPENDS = [(o, kind, m) for o in ORIGINS for kind in PayloadType for m in METADATA]
OTHERS: list[tuple[bytes, Action]] = [
    (golden_header("Delete-None"), Delete(to=SeqNr(3), version="0.0.1")),
    (golden_header("Delete-origin"), Delete(to=SeqNr(3), origin="origin", version="0.0.1")),
    (golden_header("Mark-origin"), Mark(id="id", origin="origin")),
    (implied("mark", None, {"id": "id"}), Mark(id="id")),
    (implied("purge", None, {}), Purge()),
    (implied("purge", "origin", {"version": "0.0.1"}), Purge(origin="origin", version="0.0.1")),
]


@pytest.mark.parametrize(("origin", "kind", "metadata"), APPENDS)
def test_every_variant_of_an_append_is_read_and_written(
    origin: str | None, kind: PayloadType, metadata: str
) -> None:
    """Checklist row 55."""
    header = append_header(origin, kind, metadata)

    action = decode_action(header)

    assert action == Append(
        range=RANGE, payload_type=kind, origin=origin, metadata=METADATA[metadata]
    )
    again = header if metadata != "legacy" else append_header(origin, kind, "none")
    assert json.loads(encode_action(action)) == json.loads(again)


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("Append-None-Json-legacy", (None, PayloadType.JSON, "legacy")),
        ("Append-None-Json-none", (None, PayloadType.JSON, "none")),
        ("Append-origin-Json-metadata", ("origin", PayloadType.JSON, "metadata")),
        ("Append-origin-Binary-metadata", ("origin", PayloadType.BINARY, "metadata")),
    ],
)
def test_the_variants_are_those_of_the_golden_files(
    name: str, variant: tuple[str | None, PayloadType, str]
) -> None:
    """Checklist row 55."""
    assert json.loads(golden_header(name)) == json.loads(append_header(*variant))


@pytest.mark.parametrize(("header", "action"), OTHERS)
def test_delete_mark_and_purge_are_read_and_written(header: bytes, action: Action) -> None:
    """Checklist row 55."""
    assert decode_action(header) == action
    assert json.loads(encode_action(action)) == json.loads(header)


def test_fields_that_are_not_known_are_ignored_and_another_kind_is_no_action() -> None:
    assert decode_action(b'{"purge":{"since":"tomorrow"},"more":1}') == Purge()
    assert decode_action(b'{"merge":{"with":"other"}}') is None


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (b"{", "is not valid JSON"),
        (b"[]", "is not a JSON object"),
        (b'"\xff"', "is not valid JSON"),
        (b'{"append":{}}', "append has no 'range'"),
        (b'{"append":{"range":{"from":1,"to":5}}}', "append has no 'payloadType'"),
        (b'{"append":{"range":{"from":1,"to":5},"payloadType":"xml"}}', "'xml'"),
        (b'{"append":{"range":{"from":5,"to":1},"payloadType":"json"}}', "from 5 to 1"),
        (b'{"append":{"range":[1,2],"payloadType":"json"}}', "append"),
        (b'{"delete":{"to":0}}', "sequence number 0"),
        (b'{"delete":{"to":1.5}}', "not a whole number"),
        (b'{"delete":{"to":NaN}}', "NaN"),
        (b'{"delete":3}', "delete is 3"),
        (b'{"mark":{"id":7}}', "its id is 7"),
        (b'{"purge":{"origin":7}}', "origin is 7"),
    ],
)
def test_a_header_that_fits_nothing_is_one_error_that_says_why(header: bytes, said: str) -> None:
    with pytest.raises(JournalError, match=said) as caught:
        decode_action(header)

    assert "journal.action" in str(caught.value)


NAMES = st.none() | st.text(max_size=8)
NUMBERS = st.integers(1, SEQ_NR_MAX).map(SeqNr)
DATA = st.none() | st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=4))
RANGES = st.tuples(NUMBERS, NUMBERS).map(lambda two: SeqRange(first=min(two), last=max(two)))
ACTIONS = st.one_of(
    st.builds(
        Append,
        range=RANGES,
        payload_type=st.sampled_from(PayloadType),
        origin=NAMES,
        version=NAMES,
        metadata=DATA,
        expected_seq_nr=st.none() | st.integers(0, SEQ_NR_MAX),
    ),
    st.builds(Delete, to=NUMBERS, origin=NAMES, version=NAMES),
    st.builds(Mark, id=st.text(max_size=8), origin=NAMES, version=NAMES),
    st.builds(Purge, origin=NAMES, version=NAMES),
)


@settings(deadline=None)
@given(action=ACTIONS)
def test_every_action_comes_back_as_it_was(action: Action) -> None:
    assert decode_action(encode_action(action)) == action


@settings(deadline=None, max_examples=300)
@given(action=ACTIONS, at=st.integers(0, 200), byte=st.integers(0, 255), cut=st.booleans())
def test_a_damaged_header_is_an_action_or_one_error(
    action: Action, at: int, byte: int, cut: bool
) -> None:
    header = bytearray(encode_action(action))
    at %= len(header)
    header[at:] = b"" if cut else bytes((byte,)) + header[at + 1 :]

    try:
        decode_action(bytes(header))
    except JournalError:
        return
