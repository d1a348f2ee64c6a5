"""The door of the raft port, cell by cell: who may say what, and in whose name."""

import itertools
from dataclasses import replace
from uuid import UUID

import pytest

from josefine_broker.engine.cluster.admission import (
    LISTENS,
    VOUCHED_MAX,
    Roster,
    Speech,
    Standing,
    vouched_by,
    why_not,
    why_not_payload,
)
from josefine_broker.engine.cluster.frames import GREETINGS, Kind
from josefine_broker.engine.metadata.change_codec import encode_change
from josefine_broker.engine.metadata.changes import DeleteTopic, Origin, RegisterBroker
from josefine_broker.engine.metadata.image import Address, Endpoint

ROSTER = Roster(own_id=1, members={1, 2, 3}, registered={1, 2, 3, 4}, vouched={5})
PEERS = {Standing.MEMBER: (2, 3), Standing.INVITED: (4, 5), Standing.STRANGER: (1, 77)}
ASKED_OF_NOBODY = {Kind.DISCOVERED, Kind.PROPOSE_ANSWER}
"""They only answer a question, on the connection that asked."""


def test_every_kind_of_frame_that_peers_send_has_its_row() -> None:
    kinds = {each.name for each in set(Kind) - GREETINGS - ASKED_OF_NOBODY}

    assert {each.name for each in Speech} == kinds
    assert set(LISTENS) == set(Speech)


@pytest.mark.parametrize(("standing", "speech"), list(itertools.product(Standing, Speech)))
def test_strangers_may_only_ask_who_there_is_and_to_be_let_in(
    standing: Standing, speech: Speech
) -> None:
    may = standing is not Standing.STRANGER or speech in (Speech.DISCOVER, Speech.PROPOSE)
    for peer in PEERS[standing]:
        assert ROSTER.standing(peer) is standing

        reason = why_not(ROSTER, peer, speech, speaks_for=peer)

        assert (reason is None) is may
        assert may or f"broker {peer} is not a member" in str(reason)


@pytest.mark.parametrize("speech", Speech)
def test_nobody_speaks_in_the_name_of_another(speech: Speech) -> None:
    for peer in (2, 4, 5):
        assert "in the name of broker 3" in str(why_not(ROSTER, peer, speech, speaks_for=3))
        assert why_not(ROSTER, peer, speech, speaks_for=None) is None


def test_a_greeting_of_whom_we_know_invites_others() -> None:
    """A voter that was away while members changed must come to hear its leader."""
    assert vouched_by(ROSTER, 2, (2, 6), was_dialed=False) == {5, 2, 6}
    assert vouched_by(ROSTER, 5, (7,), was_dialed=False) == {5, 7}


def test_a_stranger_invites_nobody_unless_we_dialed_it() -> None:
    assert vouched_by(ROSTER, 77, (77, 78), was_dialed=False) == {5}
    nobody = replace(ROSTER, members=(), registered=(), vouched=())

    assert vouched_by(nobody, 2, (2, 3), was_dialed=True) == {2, 3}


def test_greetings_invite_no_endless_number() -> None:
    assert vouched_by(ROSTER, 2, range(100, 100 + VOUCHED_MAX), was_dialed=False) == {5}


REGISTER = RegisterBroker(
    broker_id=4, incarnation="x", endpoints=(Endpoint("P", "h", 9092),), raft=Address("h", 9093)
)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "not JSON"),
        (b"[" * 99_999, "not JSON"),
        (b"[]", "not a JSON object"),
        (encode_change(REGISTER, Origin(4, 1)).replace(b'"clean"', b'"cleam"'), "KeyError"),
        (encode_change(REGISTER, Origin(4, 1)).replace(b'"broker":4', b'"broker":"4"'), "type"),
        (encode_change(REGISTER, Origin(4, 1)).replace(b"9092", b"90.92"), "wrong type"),
        (encode_change(REGISTER, Origin(4, 1)).replace(b"9092", b"99092"), "h:99092"),
        (encode_change(REGISTER, Origin(4, 1)).replace(b'"broker":4', b'"broker":0'), "broker 0"),
        (encode_change(REGISTER, Origin(4, "a")), "wrong type"),  # type: ignore[arg-type]
        (b'{"version":1,"kind":"delete_topic","origin":[1,2],"change":{"id":5}}', "delete_topic"),
    ],
)
def test_a_change_that_would_stop_every_broker_is_not_appended(payload: bytes, reason: str) -> None:
    assert reason in str(why_not_payload(payload))


def test_a_change_that_can_be_applied_is_appended() -> None:
    assert why_not_payload(encode_change(REGISTER, Origin(4, 1))) is None
    assert why_not_payload(encode_change(DeleteTopic(topic_id=UUID(int=1)), Origin(4, 1))) is None
