"""The gate of a connection before authentication: it admits ApiVersions, SaslHandshake and
SaslAuthenticate, in small frames and before a deadline (the connection's). Where sessions end
(KIP-368) it stays: a SaslHandshake starts a re-authentication, and after the session's end it is
the only request admitted.

The decisions are in engine/security/sasl.py; here requests become its tokens and back.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.engine.limits.login_backoff import Guesses, Slot
from josefine_broker.engine.security.sasl import Judge, Sasl, SaslState, Users, no_judge
from josefine_broker.host.metrics import ConnectionStats
from josefine_broker.host.net.dispatch import (
    Buffers,
    DisconnectError,
    Dispatcher,
    LastBuffers,
    Peer,
    Waiting,
)
from josefine_broker.host.rate_limited_log import RateLimitedLog
from josefine_broker.wire.apis import API_VERSIONS, APIS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from josefine_broker.wire.codec import (
    RequestHeader,
    decode_request,
    encode_response,
    parse_request_header,
)
from josefine_broker.wire.entities import sasl_authenticate, sasl_handshake

log = logging.getLogger(__name__)

FRAME_BYTES_MAX = 16 * 1024
"""Frame limit of a client that is not authenticated yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authentication:
    """State that all connections of the listeners with SASL share."""

    mechanisms: tuple[str, ...]
    users: Callable[[], Users]
    new_nonce: Callable[[], str]
    timeout_ms: int
    failure_delay_ms: int
    judge: Judge = no_judge
    """Judges tokens by the current keys."""
    session_ms: int | None = None
    """How long a login counts; None: as long as the connection, or the token."""
    guesses: Guesses = field(default_factory=Guesses)
    """Shared by all listeners."""
    log_refused: RateLimitedLog = field(
        default_factory=lambda: RateLimitedLog(
            log, "authentication refused", time.monotonic, logging.WARNING
        )
    )
    """Rate limited: guessing clients fail often."""


HANDSHAKE = SASL_HANDSHAKE.to_bytes(2, "big")
PROOF = SASL_AUTHENTICATE.to_bytes(2, "big")
"""The first bytes of a request."""


class Gate:
    """The gate of one connection. It is passed once `peer` has a name."""

    __slots__ = ("_authentication", "_dispatcher", "_is_over", "_sasl", "_slot", "_stats", "peer")

    def __init__(
        self,
        peer: Peer,
        dispatcher: Dispatcher,
        authentication: Authentication,
        stats: ConnectionStats,
    ) -> None:
        self.peer = peer
        self._stats = stats
        self._is_over = False
        self._slot: Slot | None = None
        """The slot of the expected login; None: it has not asked for one."""
        self._dispatcher = dispatcher
        self._authentication = authentication
        self._sasl = Sasl(authentication.mechanisms, authentication.session_ms)

    @property
    def is_passed(self) -> bool:
        return self._sasl.state is SaslState.KNOWN

    @property
    def lasts_ms(self) -> int | None:
        """How long the credentials count; None: without a limit."""
        return self._sasl.lasts_ms

    @property
    def ends_with_token(self) -> bool:
        """Whether that limit is the token's end, which closes the connection."""
        return self._sasl.ends_with_token

    def lets_through(self, frame: memoryview) -> bool:
        """Whether the request is outside the gate's concern."""
        return self.is_passed and not self._is_over and frame[:2] != HANDSHAKE

    def end(self) -> None:
        """The session is over."""
        self._is_over = True

    def refused(self, answer: LastBuffers) -> None:
        """The connection closes with this answer: counted, and logged once a minute."""
        self._stats.closed.authentication += 1
        reason = answer.reason if answer else "not authenticated in time"
        self._authentication.log_refused.report(client=self.peer.address, reason=reason)
        answer.reason = ""

    def wait_ms(self, frame: memoryview, now_ms: int) -> int:
        """The delay before this request is served. Asked again after the delay: 0."""
        if frame[:2] != PROOF or self._slot is not None or not self._sasl.awaits_guess:
            return 0
        self._slot, wait_ms = self._authentication.guesses.ask(self.peer.host, now_ms)
        self._stats.authentication_delayed += self._slot is not Slot.FREE
        return wait_ms

    def _noted(self, now_ms: int) -> None:
        """Record the result of a login, for the next ones from the same address."""
        guesses, slot = self._authentication.guesses, self._slot
        if slot is None or not (self._sasl.was_wrong or self.is_passed):
            return  # SCRAM continues
        self._slot = None
        if self.is_passed and slot is Slot.TAKEN:
            guesses.give_back(self.peer.host)
        elif self._sasl.was_wrong and slot is Slot.FREE:
            guesses.wrong(self.peer.host, now_ms)

    def serve(self, frame: memoryview, now_ms: int) -> Buffers | Waiting | None:
        """`LastBuffers` for a refused client or one whose session is over. Raises
        DisconnectError."""
        if self.is_passed and frame[:2] != HANDSHAKE:
            self._stats.closed.session += 1
            return _last("its session ended without re-authentication")
        try:
            header = parse_request_header(frame)
            if header.api_key == API_VERSIONS:
                return self._dispatcher.serve(frame, self.peer)
            row = APIS.get(header.api_key)
            if row is None or header.api_key not in (SASL_HANDSHAKE, SASL_AUTHENTICATE):
                raise DisconnectError(self._unheard or "a request before authentication")
            if not row.min_version <= header.api_version <= row.max_version:
                raise DisconnectError(f"{row.name} version {header.api_version} is not served")
            body = decode_request(header, frame)
        except (CorruptData, KafkaError) as error:
            raise DisconnectError(f"malformed request: {error}") from error
        if header.api_key == SASL_HANDSHAKE:
            return self._choose(header, body)
        return self._authenticate(header, body, now_ms)

    @property
    def _unheard(self) -> str:
        """Some clients continue after their token was refused."""
        return self._sasl.refused and f"authentication failed: {self._sasl.refused}"

    def _choose(self, header: RequestHeader, body: sasl_handshake.SaslHandshakeRequest) -> Buffers:
        error = self._sasl.choose(body.mechanism)
        answer = sasl_handshake.SaslHandshakeResponse(
            error_code=error, mechanisms=self._authentication.mechanisms
        )
        return self._encoded(header, answer, error, "a mechanism that is not served")

    def _authenticate(
        self, header: RequestHeader, body: sasl_authenticate.SaslAuthenticateRequest, now_ms: int
    ) -> Buffers:
        authentication, is_again = self._authentication, bool(self._sasl.user)
        if self._slot is Slot.NONE:
            given = self._sasl.refuse()
        else:
            given = self._sasl.authenticate(
                bytes(body.auth_bytes),
                authentication.users(),
                authentication.new_nonce(),
                authentication.judge,
            )
        self._noted(now_ms)
        if self.is_passed:
            self._stats.reauthentications += is_again
            self._is_over = False
            self.peer = replace(self.peer, principal=f"User:{self._sasl.user}")
        answer = sasl_authenticate.SaslAuthenticateResponse(
            error_code=given.error,
            error_message=None if given.error is ErrorCode.none else given.message,
            auth_bytes=given.token,
            session_lifetime_ms=(self.lasts_ms or 0) if self.is_passed else 0,
        )
        return self._encoded(header, answer, given.error, given.reason)

    def _encoded(
        self, header: RequestHeader, answer: object, error: ErrorCode, reason: str
    ) -> Buffers:
        buffers = encode_response(header.api_key, header.api_version, header.correlation_id, answer)
        if error is ErrorCode.none:
            return buffers
        return _last(f"authentication failed: {reason}", buffers)


def _last(reason: str, buffers: Buffers = ()) -> LastBuffers:
    last = LastBuffers(buffers)
    last.reason = reason
    return last
