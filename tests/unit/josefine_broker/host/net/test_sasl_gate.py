"""A connection to a listener with SASL, from its first byte: what is served before it is known."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.oauth import client_first
from josefine_broker.base.scram import client_final
from josefine_broker.base.scram import client_first as scram_first
from josefine_broker.engine.limits import login_backoff
from josefine_broker.engine.limits.login_backoff import FREE, Guesses, Slot
from josefine_broker.engine.purgatory.purgatory import Hangup
from josefine_broker.engine.security.sasl import MECHANISMS, Users
from josefine_broker.engine.security.tokens import Holder, TokenError
from josefine_broker.host.net.sasl_gate import FRAME_BYTES_MAX, Authentication
from josefine_broker.host.net.server import bind
from josefine_broker.wire import apis, codec
from josefine_broker.wire import entities as e
from tests.unit.josefine_broker.api.test_table import empty_request
from tests.unit.josefine_broker.host.serving import (
    GROUPS,
    Client,
    Held,
    Serving,
    groups_answer,
    until,
)

TIMEOUT_S = 20.0
USERS = Users({"alice": "secret", "bob": "other"}, b"salting", 4096)


def judge(lasts_ms: int, token: str) -> Holder:
    if token == "alice.s":
        return Holder("alice", lasts_ms)
    raise TokenError("of nobody")


@asynccontextmanager
async def serving(
    held: Held | None = None,
    guesses: Guesses | None = None,
    keys: Sequence[int] = (GROUPS,),
    **changes: int,
) -> AsyncIterator[tuple[Serving, list[str]]]:
    """A broker whose one listener wants SASL, and who has asked it something, which waits where it
    is `held`."""
    seen: list[str] = []

    def handle(_header: object, peer: Any, _body: object) -> object:
        seen.append(peer.principal)
        return held or (groups_answer("served") if GROUPS in keys else Hangup("it was asked"))

    served = Serving(dict.fromkeys(keys, handle))
    bound = bind("SASL", "127.0.0.1", 0)
    authentication = Authentication(
        mechanisms=MECHANISMS,
        users=lambda: USERS,
        new_nonce=lambda: "nonce",
        timeout_ms=changes.get("timeout_ms", 10_000),
        failure_delay_ms=changes.get("failure_delay_ms", 5),
        judge=partial(judge, changes.get("lasts_ms", 60_000)),
        session_ms=changes.get("session_ms"),
        guesses=guesses or Guesses(),
    )
    await served.server.start([bound], None, {"SASL": authentication})
    served.ticker.start()
    served.port = bound.port
    try:
        yield served, seen
    finally:
        await served.stop()


class Asking:
    """A client that says frames and hears answers."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def ask(self, key: int, request: object) -> Any:
        version = apis.APIS[key].max_version
        self.client.writer.write(b"".join(codec.encode_request(key, version, 7, "c", request)))
        answer = await asyncio.wait_for(self.client.frame(), TIMEOUT_S)
        return codec.decode_response(key, version, answer)[1]

    async def handshake(self, mechanism: str = "PLAIN") -> Any:
        request = e.sasl_handshake.SaslHandshakeRequest(mechanism=mechanism)
        return await self.ask(apis.SASL_HANDSHAKE, request)

    async def token(self, token: bytes) -> Any:
        request = e.sasl_authenticate.SaslAuthenticateRequest(auth_bytes=token)
        return await self.ask(apis.SASL_AUTHENTICATE, request)

    async def is_hung_up_on(self) -> bool:
        return await asyncio.wait_for(self.client.closed(), TIMEOUT_S)


def test_requests_carry_the_name_once_it_is_proved() -> None:
    async def scenario() -> None:
        async with serving() as (served, seen):
            asking = Asking(await served.connect())

            assert (await asking.handshake()).error_code is ErrorCode.none
            answer = await asking.token(b"\0alice\0secret")
            assert (answer.error_code, answer.session_lifetime_ms) == (ErrorCode.none, 0)
            asking.client.ask(1)
            await asyncio.wait_for(asking.client.answer(), TIMEOUT_S)

            assert seen == ["User:alice"]

    asyncio.run(scenario())


def test_request_before_authentication_is_not_served() -> None:
    async def scenario() -> None:
        async with serving() as (served, seen):
            for is_begun in (False, True):
                asking = Asking(await served.connect())
                if is_begun:
                    await asking.handshake()
                asking.client.ask(1)

                assert await asking.is_hung_up_on()
            assert seen == []

    asyncio.run(scenario())


def test_refused_one_is_told_late_and_hung_up_on_and_what_it_sent_behind_is_not_served() -> None:
    async def scenario() -> None:
        async with serving(failure_delay_ms=200) as (served, seen):
            asking = Asking(await served.connect())
            await asking.handshake()
            began = asyncio.get_running_loop().time()
            token = e.sasl_authenticate.SaslAuthenticateRequest(auth_bytes=b"\0alice\0guess")
            frames = codec.encode_request(apis.SASL_AUTHENTICATE, 2, 7, "c", token)
            asking.client.writer.write(b"".join(frames))
            asking.client.ask(8)

            answer = await asyncio.wait_for(asking.client.frame(), TIMEOUT_S)

            refused = codec.decode_response(apis.SASL_AUTHENTICATE, 2, answer)[1]
            assert refused.error_code is ErrorCode.sasl_authentication_failed
            assert refused.error_message == "authentication failed: wrong user or password"
            assert asyncio.get_running_loop().time() - began > 0.19
            assert await asking.is_hung_up_on()
            assert seen == []
            assert served.metrics.connections.closed.authentication == 1

    asyncio.run(scenario())


def test_no_api_key_is_served_behind_a_wrong_proof_and_each_is_behind_a_right_one() -> None:
    """Those of SASL are the gate's own, whoever asks."""

    async def served_behind(key: int, password: bytes) -> bool:
        spec = apis.APIS[key]
        async with serving(keys=(key,)) as (served, seen):
            asking = Asking(await served.connect())
            await asking.handshake()
            token = e.sasl_authenticate.SaslAuthenticateRequest(auth_bytes=b"\0alice\0" + password)
            behind = empty_request(key, min(spec.max_version, 12))
            asking.client.writer.writelines(
                (
                    *codec.encode_request(apis.SASL_AUTHENTICATE, 2, 7, "c", token),
                    *codec.encode_request(key, min(spec.max_version, 12), 8, "c", behind),
                )
            )
            async with asyncio.timeout(TIMEOUT_S):
                await asking.client.reader.read()  # to its end: both are hung up on
            asking.client.writer.close()
            return bool(seen)

    async def scenario() -> None:
        for key in apis.APIS.keys() - {apis.SASL_HANDSHAKE, apis.SASL_AUTHENTICATE, GROUPS}:
            assert not await served_behind(key, b"guess"), key
            assert await served_behind(key, b"secret"), key

    asyncio.run(scenario())


def test_who_was_wrong_too_often_waits_for_a_look_and_a_right_one_comes_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(login_backoff, "EVERY_MS", 300)
    monkeypatch.setattr(login_backoff, "WAIT_MS_MAX", 450)
    guesses, now_ms = Guesses(), time.monotonic_ns() // 1_000_000
    for _ in range(FREE):
        guesses.wrong("127.0.0.1", now_ms)

    async def scenario() -> None:
        async with serving(guesses=guesses) as (served, seen):
            right, unseen = Asking(await served.connect()), Asking(await served.connect())
            await right.handshake()
            await unseen.handshake()
            waits = asyncio.create_task(right.token(b"\0alice\0secret"))
            await until(lambda: served.metrics.connections.authentication_delayed == 1, "it waits")

            refused = await unseen.token(b"\0alice\0secret")
            assert refused.error_code is ErrorCode.sasl_authentication_failed
            assert "try again later" in refused.error_message
            assert (await waits).error_code is ErrorCode.none
            assert time.monotonic_ns() // 1_000_000 - now_ms >= 300
            assert served.metrics.connections.authentication_delayed == 2
            assert guesses.ask("127.0.0.1", now_ms) == (Slot.TAKEN, 300)  # it was given back
            right.client.ask(1)
            await asyncio.wait_for(right.client.answer(), TIMEOUT_S)
            assert seen == ["User:alice"]
            right.client.writer.close()
            unseen.client.writer.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
def test_wrong_proofs_of_each_kind_are_noted_once_and_right_ones_are_not(mechanism: str) -> None:
    first = scram_first("alice", "nonce")
    wrong = {
        "PLAIN": b"\0alice\0guess",
        "SCRAM-SHA-256": first.encode(),
        "OAUTHBEARER": client_first("alice.x"),
    }[mechanism]
    guesses = Guesses()

    async def scenario() -> None:
        async with serving(guesses=guesses) as (served, _):
            right = Asking(await served.connect())
            await right.handshake()
            await right.token(b"\0alice\0secret")
            assert guesses.houses == 0
            asking = Asking(await served.connect())
            await asking.handshake(mechanism)
            answer = await asking.token(wrong)
            if mechanism.startswith("SCRAM"):
                assert guesses.houses == 0  # nothing was proved yet
                final, _ = client_final(mechanism, "guess", first, answer.auth_bytes)
                answer = await asking.token(final.encode())
            elif mechanism == "OAUTHBEARER":
                answer = await asking.token(b"\x01")
            assert answer.error_code is ErrorCode.sasl_authentication_failed
            assert guesses.houses == 1
            right.client.writer.close()
            asking.client.writer.close()

    asyncio.run(scenario())


def test_mechanism_that_is_not_served_is_answered_with_those_that_are() -> None:
    async def scenario() -> None:
        async with serving() as (served, _):
            asking = Asking(await served.connect())

            answer = await asking.handshake("GSSAPI")

            assert answer.error_code is ErrorCode.unsupported_sasl_mechanism
            assert answer.mechanisms == MECHANISMS
            assert await asking.is_hung_up_on()

    asyncio.run(scenario())


def test_stranger_has_a_deadline() -> None:
    async def scenario() -> None:
        async with serving(timeout_ms=100) as (served, _):
            silent, begun = Asking(await served.connect()), Asking(await served.connect())
            await begun.handshake()

            assert await silent.is_hung_up_on()
            assert await begun.is_hung_up_on()
            await until(
                lambda: served.metrics.connections.closed.authentication == 2, "both are counted"
            )

    asyncio.run(scenario())


@pytest.mark.parametrize("size", [FRAME_BYTES_MAX + 1, 2**31 - 1])
def test_large_frame_of_a_stranger_is_not_read(size: int) -> None:
    async def scenario() -> None:
        async with serving() as (served, _):
            asking = Asking(await served.connect())
            asking.client.writer.write(struct.pack(">i", size) + b"\x00\x24\x00\x02")

            assert await asking.is_hung_up_on()
            assert served.metrics.connections.closed.malformed == 1

    asyncio.run(scenario())


def test_large_frame_is_read_once_the_client_is_known() -> None:
    async def scenario() -> None:
        async with serving() as (served, seen):
            asking = Asking(await served.connect())
            await asking.handshake()
            await asking.token(b"\0alice\0secret")

            asking.client.ask(1, "x" * (FRAME_BYTES_MAX + 1))
            await asyncio.wait_for(asking.client.answer(), TIMEOUT_S)

            assert seen == ["User:alice"]

    asyncio.run(scenario())


def test_connection_ends_with_its_token_and_not_before() -> None:
    async def scenario() -> None:
        async with serving(lasts_ms=200) as (served, _):
            asking = Asking(await served.connect())
            await asking.handshake("OAUTHBEARER")
            began = asyncio.get_running_loop().time()
            assert (await asking.token(client_first("alice.s"))).error_code is ErrorCode.none

            assert await asking.is_hung_up_on()
            assert asyncio.get_running_loop().time() - began > 0.19

    asyncio.run(scenario())


def test_request_that_was_begun_is_answered_before_its_connection_ends() -> None:
    async def scenario() -> None:
        held = Held(2**62, "late")
        async with serving(held, lasts_ms=50) as (served, seen):
            served.parked.park(held)
            asking = Asking(await served.connect())
            await asking.handshake("OAUTHBEARER")
            token = e.sasl_authenticate.SaslAuthenticateRequest(auth_bytes=client_first("alice.s"))
            frames = codec.encode_request(apis.SASL_AUTHENTICATE, 2, 7, "c", token)
            asking.client.writer.write(b"".join(frames))
            asking.client.ask(8)  # in the same read: however slow we are, it is begun
            await until(lambda: seen, "it is begun")
            asyncio.get_running_loop().call_later(0.2, held.complete, groups_answer("late"))

            await asyncio.wait_for(asking.client.frame(), TIMEOUT_S)
            assert await asyncio.wait_for(asking.client.answer(), TIMEOUT_S) == (8, "late")
            assert await asking.is_hung_up_on()

    asyncio.run(scenario())


SECRET = b"\0alice\0secret"


async def said(asking: Asking, number: int = 1) -> bool:
    """Whether a request is answered; else it is hung up on."""
    asking.client.ask(number)
    try:
        await asyncio.wait_for(asking.client.answer(), TIMEOUT_S)
    except (asyncio.IncompleteReadError, ConnectionError):
        return False
    return True


def test_session_is_told_and_lasts_for_who_proves_again() -> None:
    """KIP-368."""

    async def scenario() -> None:
        async with serving(session_ms=1_000) as (served, seen):
            asking = Asking(await served.connect())
            counts, clock = served.metrics.connections, asyncio.get_running_loop()
            began, rounds = clock.time(), 0
            while clock.time() - began < 2.1:
                assert (await asking.handshake()).error_code is ErrorCode.none
                answer = await asking.token(SECRET)
                assert (answer.error_code, answer.session_lifetime_ms) == (ErrorCode.none, 1_000)
                assert await said(asking)
                rounds += 1

            assert (counts.reauthentications, counts.closed.session) == (rounds - 1, 0)
            assert set(seen) == {"User:alice"}

    asyncio.run(scenario())


def test_next_request_behind_the_end_of_a_session_is_not_served_but_a_proof_is() -> None:
    async def scenario() -> None:
        async with serving(session_ms=1_000) as (served, seen):
            late, lost = Asking(await served.connect()), Asking(await served.connect())
            for asking in (late, lost):
                await asking.handshake()
                await asking.token(SECRET)
            began = asyncio.get_running_loop().time()

            while await said(lost):
                assert asyncio.get_running_loop().time() - began < TIMEOUT_S
            assert (await late.handshake()).error_code is ErrorCode.none
            assert (await late.token(SECRET)).error_code is ErrorCode.none
            assert await said(late)
            assert served.metrics.connections.closed.session == 1
            assert set(seen) <= {"User:alice"}

    asyncio.run(scenario())


def test_what_was_begun_in_a_session_is_answered_behind_its_end() -> None:
    async def scenario() -> None:
        held = Held(2**62, "late")
        async with serving(held, session_ms=200) as (served, seen):
            served.parked.park(held)
            asking = Asking(await served.connect())
            await asking.handshake()
            token = e.sasl_authenticate.SaslAuthenticateRequest(auth_bytes=SECRET)
            frames = codec.encode_request(apis.SASL_AUTHENTICATE, 2, 7, "c", token)
            asking.client.writer.write(b"".join(frames))
            asking.client.ask(8)  # in the same read: however slow we are, it is begun
            (gate,) = [each._gate for each in served.server.clients]
            assert gate is not None
            await until(lambda: gate._is_over, "the end of the session")
            asking.client.ask(9)
            counts = served.metrics.connections
            await until(lambda: counts.closed.session, "it is noticed")
            held.complete(groups_answer("late"))

            await asyncio.wait_for(asking.client.frame(), TIMEOUT_S)
            assert await asking.client.answer() == (8, "late")
            assert len(seen) == 1
            assert await asking.is_hung_up_on()

    asyncio.run(scenario())


def test_request_between_two_proofs_and_another_user_are_not_served() -> None:
    async def scenario() -> None:
        async with serving(session_ms=60_000) as (served, seen):
            between, other = Asking(await served.connect()), Asking(await served.connect())
            for asking in (between, other):
                await asking.handshake()
                await asking.token(SECRET)
                await asking.handshake()

            assert not await said(between)
            answer = await other.token(b"\0bob\0other")
            assert answer.error_code is ErrorCode.sasl_authentication_failed
            assert "cannot change its user" in answer.error_message
            assert await other.is_hung_up_on()
            assert seen == []

    asyncio.run(scenario())


def test_refusal_of_another_proof_waits_for_the_answers_before_it() -> None:
    async def scenario() -> None:
        held = Held(2**62, "late")
        async with serving(held, session_ms=60_000) as (served, seen):
            served.parked.park(held)
            asking = Asking(await served.connect())
            await asking.handshake()
            await asking.token(SECRET)
            asking.client.ask(8)
            await until(lambda: seen, "it is begun")
            wrong = e.sasl_handshake.SaslHandshakeRequest(mechanism="SCRAM-SHA-256")
            frames = codec.encode_request(apis.SASL_HANDSHAKE, 1, 9, "c", wrong)
            asking.client.writer.write(b"".join(frames))
            asyncio.get_running_loop().call_later(0.1, held.complete, groups_answer("late"))

            assert await asyncio.wait_for(asking.client.answer(), TIMEOUT_S) == (8, "late")
            refused = await asyncio.wait_for(asking.client.frame(), TIMEOUT_S)
            answer = codec.decode_response(apis.SASL_HANDSHAKE, 1, refused)[1]
            assert answer.error_code is ErrorCode.unsupported_sasl_mechanism
            assert await asking.is_hung_up_on()

    asyncio.run(scenario())


def test_refused_token_is_told_at_once_and_hung_up_on_when_that_was_heard() -> None:
    async def scenario() -> None:
        async with serving() as (served, seen):
            asking, deaf = Asking(await served.connect()), Asking(await served.connect())
            for each in (asking, deaf):
                await each.handshake("OAUTHBEARER")
                told = await each.token(client_first("forged"))
                assert told.error_code is ErrorCode.none
                assert told.auth_bytes == b'{"status": "invalid_token"}'

            refused = await asking.token(b"\x01")
            assert refused.error_code is ErrorCode.sasl_authentication_failed
            assert 'authentication failed: {"status": "invalid_token"}' in refused.error_message
            assert await asking.is_hung_up_on()
            deaf.client.ask(1)  # some clients take what they are told for a welcome
            assert await deaf.is_hung_up_on()
            assert seen == []

    asyncio.run(scenario())
