"""SASL authentication of one connection (KIP-43, KIP-152): PLAIN (RFC 4616), SCRAM and OAUTHBEARER
(RFC 7628) as one state machine, and re-authentication before the session ends (KIP-368). Sans-I/O:
nonces are arguments, users are a value.

A client that is refused learns neither whether the user exists nor which part was wrong; a client
whose token is refused learns the reason if the token's issuer signed it.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

from josefine_broker.base.errors import ErrorCode, Fatal
from josefine_broker.base.oauth import OAUTHBEARER, OauthError, refusal
from josefine_broker.base.oauth import parse_client_first as parse_bearer
from josefine_broker.base.scram import (
    HASHES,
    ClientFirst,
    Credential,
    ScramError,
    credential,
    parse_client_first,
    server_final,
    server_first,
)
from josefine_broker.engine.security.tokens import Holder, TokenError

PLAIN = "PLAIN"
MECHANISMS = (PLAIN, *HASHES, OAUTHBEARER)
TOKEN_BYTES_MAX = 4_096
BEARER_BYTES_MAX = 12 * 1_024
"""For OAUTHBEARER: some issuers put a client's groups into its tokens."""
REFUSED = "authentication failed: wrong user or password"
"""The same text for every wrong part."""
TOO_MANY = "authentication failed: too many failed attempts from this address, try again later"
ANOTHER = "authentication failed: a connection cannot change its user"


class SaslState(Enum):
    """The progress of a client's authentication."""

    NEW = "new"  # no mechanism chosen
    CHOSEN = "chosen"  # waits for the first token
    CHALLENGED = "challenged"  # SCRAM: salt and nonce were sent, waits for the proof
    REJECTED = "rejected"  # OAUTHBEARER: the token's refusal was sent, waits for its confirmation
    KNOWN = "known"  # authenticated
    REFUSED = "refused"  # failed; the connection must be closed


class SaslEvent(Enum):
    """The events of an authentication."""

    MECHANISM_TAKEN = "mechanism taken"
    CHALLENGE_SENT = "challenge sent"
    REFUSAL_SENT = "refusal sent"
    PROVED = "proved"
    FAILED = "failed"  # a wrong secret, an invalid token, a request out of order


TRANSITIONS: dict[tuple[SaslState, SaslEvent], SaslState] = {
    (SaslState.NEW, SaslEvent.MECHANISM_TAKEN): SaslState.CHOSEN,
    (SaslState.CHOSEN, SaslEvent.CHALLENGE_SENT): SaslState.CHALLENGED,
    (SaslState.CHOSEN, SaslEvent.PROVED): SaslState.KNOWN,  # PLAIN and OAUTHBEARER
    (SaslState.CHOSEN, SaslEvent.REFUSAL_SENT): SaslState.REJECTED,
    (SaslState.CHALLENGED, SaslEvent.PROVED): SaslState.KNOWN,
    (SaslState.KNOWN, SaslEvent.MECHANISM_TAKEN): SaslState.CHOSEN,  # again (KIP-368)
    (SaslState.KNOWN, SaslEvent.FAILED): SaslState.REFUSED,
    (SaslState.NEW, SaslEvent.FAILED): SaslState.REFUSED,
    (SaslState.CHOSEN, SaslEvent.FAILED): SaslState.REFUSED,
    (SaslState.CHALLENGED, SaslEvent.FAILED): SaslState.REFUSED,
    (SaslState.REJECTED, SaslEvent.FAILED): SaslState.REFUSED,
}

Judge = Callable[[str], Holder]
"""A verifier of tokens. Raises TokenError."""


def no_judge(token: str) -> Holder:
    """The verifier of a broker without OAUTHBEARER."""
    raise TokenError("tokens are not accepted: oauthbearer is not configured")


Stored = Mapping[tuple[str, str], Credential]
"""(user, mechanism) → credential, as in the metadata."""


def no_stored() -> Stored:
    """The credentials of a broker without metadata."""
    return {}


class Users:
    """The users: configured names and passwords, and those of the metadata. A value, except for a
    cache: deriving a SCRAM credential takes milliseconds, and is done on first use.
    """

    __slots__ = ("_credentials", "_iterations", "_passwords", "_salting", "_stored")

    def __init__(
        self,
        passwords: Mapping[str, str],
        salting: bytes,
        iterations: int,
        stored: Callable[[], Stored] = no_stored,
    ) -> None:
        """`salting` is random and secret: salts are derived from it, also for unknown users, so
        that they cannot be distinguished. A user with a password here has none in `stored`."""
        self._stored = stored
        self._passwords = dict(passwords)
        self._salting = salting
        self._iterations = iterations
        self._credentials: dict[tuple[str, str], Credential] = {}

    def __repr__(self) -> str:
        return f"Users({len(self._passwords)})"

    def has(self, user: str, password: str) -> bool:
        """Whether the password is right. Takes milliseconds for users without a password here,
        whether they are in the metadata or not."""
        known = self._passwords.get(user)
        if known is not None:
            # In constant time: how long a comparison takes must not show how much of a guess is
            # right.
            return hmac.compare_digest(known.encode(), password.encode())
        stored = self._stored()
        mechanism = next((each for each in HASHES if (user, each) in stored), next(iter(HASHES)))
        kept = self.credential(mechanism, user)
        made = credential(mechanism, password, kept.salt, kept.iterations)
        return hmac.compare_digest(made.stored_key, kept.stored_key)

    def credential(self, mechanism: str, user: str) -> Credential:
        """The user's credential; for an unknown user, one that no proof matches."""
        made = self._credentials.get((mechanism, user))
        if made is not None:
            return made
        stored = None if user in self._passwords else self._stored().get((user, mechanism))
        if stored is not None:
            return stored
        salt = hmac.digest(self._salting, f"{mechanism}\0{user}".encode(), "sha256")
        password = self._passwords.get(user)
        if password is None:
            size = HASHES[mechanism]
            nothing = hmac.digest(self._salting, salt, size)
            return Credential(
                salt=salt, iterations=self._iterations, stored_key=nothing, server_key=nothing
            )
        made = credential(mechanism, password, salt, self._iterations)
        self._credentials[(mechanism, user)] = made
        return made


class Answer(NamedTuple):
    """The answer to one token."""

    token: bytes = b""
    error: ErrorCode = ErrorCode.none
    reason: str = ""
    """Why it was refused; for our log."""
    message: str = REFUSED
    """Why it was refused, for the client."""


class Sasl:
    """The authentication of one connection. `user` is valid while `state` is KNOWN, for `lasts_ms`
    (None: without limit). A client whose session ends may authenticate again, as the same user by
    the same mechanism. `refused` is why its token was refused."""

    __slots__ = (
        "_challenge",
        "_credential",
        "_first",
        "_mechanism",
        "_mechanisms",
        "_message",
        "_session_ms",
        "ends_with_token",
        "lasts_ms",
        "refused",
        "state",
        "user",
    )

    def __init__(self, mechanisms: tuple[str, ...], session_ms: int | None = None) -> None:
        """`session_ms`: the longest time that a proof is valid; None: without limit."""
        self.state = SaslState.NEW
        self._session_ms = session_ms
        self.ends_with_token = False
        self.user = ""
        self.lasts_ms: int | None = None
        self.refused = ""
        self._message = ""
        self._mechanisms = mechanisms
        self._mechanism = ""
        self._challenge = ""
        self._first: ClientFirst | None = None
        self._credential: Credential | None = None

    def choose(self, mechanism: str) -> ErrorCode:
        """Handle a SaslHandshake."""
        is_again = self.state is SaslState.KNOWN and self.lasts_ms is not None
        if self.state is not SaslState.NEW and not is_again:
            self._fail()
            return ErrorCode.illegal_sasl_state
        if mechanism not in ((self._mechanism,) if is_again else self._mechanisms):
            self._fail()
            return ErrorCode.unsupported_sasl_mechanism
        self._mechanism = mechanism
        self._step(SaslEvent.MECHANISM_TAKEN)
        return ErrorCode.none

    def authenticate(
        self, token: bytes, users: Users, nonce: str, judge: Judge = no_judge
    ) -> Answer:
        """Handle a SaslAuthenticate; `nonce` is random, printable, without comma, and used once."""
        if self.state is SaslState.REJECTED:
            return self._refused(self.refused, self._message)
        if self.state not in (SaslState.CHOSEN, SaslState.CHALLENGED):
            self._fail()
            return Answer(error=ErrorCode.illegal_sasl_state, reason="no token is awaited")
        is_bearer = self._mechanism == OAUTHBEARER
        # Before any parsing: the client is not authenticated, and may be an attacker.
        if len(token) > (BEARER_BYTES_MAX if is_bearer else TOKEN_BYTES_MAX):
            return self._refused("a token that is too long")
        try:
            if is_bearer:
                return self._bearer(token, judge)
            if self._mechanism == PLAIN:
                return self._plain(token, users)
            if self.state is SaslState.CHOSEN:
                return self._challenged(token, users, nonce)
            return self._proved(token)
        except (ScramError, OauthError) as error:
            return self._refused(str(error))

    @property
    def awaits_guess(self) -> bool:
        """Whether its next token starts a proof, which may be a guess."""
        return self.state is SaslState.CHOSEN

    @property
    def was_wrong(self) -> bool:
        """Whether the last proof was wrong."""
        return self.state in (SaslState.REJECTED, SaslState.REFUSED)

    def refuse(self) -> Answer:
        """Refuse a token without verifying it: too many failures from its address."""
        return self._refused("too many failed attempts from its address", TOO_MANY)

    def _bearer(self, token: bytes, judge: Judge) -> Answer:
        """OAUTHBEARER: one message. After a refusal the client confirms with a single byte (RFC
        7628, 3.2.3), and only then gets the error."""
        first = parse_bearer(token)
        try:
            holder = judge(first.token)
            if first.authorized not in ("", holder.name):
                raise TokenError("the token is not that user's", is_signed=True)
        except TokenError as error:
            said = refusal(error.reason if error.is_signed else "")
            self.refused, self._message = error.reason, f"authentication failed: {said.decode()}"
            self._step(SaslEvent.REFUSAL_SENT)
            return Answer(said)
        return self._proved_by(holder.name, holder.lasts_ms)

    def _plain(self, token: bytes, users: Users) -> Answer:
        """PLAIN: authorization id, user and password, separated by zero bytes. Only one's own id
        may be given."""
        parts = token.split(b"\0")
        if len(parts) != 3:
            return self._refused("not a PLAIN token")
        try:
            authorized, user, password = (part.decode() for part in parts)
        except UnicodeDecodeError:
            return self._refused("not UTF-8")
        # The password first, so that a wrong authorization id takes as long as a wrong password.
        if not users.has(user, password) or authorized not in ("", user):
            return self._refused("wrong user or password")
        return self._proved_by(user)

    def _challenged(self, token: bytes, users: Users, nonce: str) -> Answer:
        """SCRAM, first message: salt and iterations, also for a user that does not exist (RFC
        5802)."""
        first = parse_client_first(token)
        known = users.credential(self._mechanism, first.user)
        self._first, self._credential = first, known
        self._challenge = server_first(first.nonce + nonce, known.salt, known.iterations)
        self._step(SaslEvent.CHALLENGE_SENT)
        return Answer(self._challenge.encode())

    def _proved(self, token: bytes) -> Answer:
        """SCRAM, second message: the client proves the password, and the answer proves that this
        broker knows it, too. Raises ScramError."""
        assert self._first is not None
        assert self._credential is not None
        answer = server_final(
            self._mechanism, self._credential, self._first, self._challenge, token
        )
        return self._proved_by(self._first.user, said=answer.encode())

    def _proved_by(self, user: str, token_ms: int | None = None, said: bytes = b"") -> Answer:
        """`token_ms`: how long its token is valid."""
        # KIP-368: what the connection has open, such as quotas and sessions, belongs to the first
        # user.
        if self.user not in ("", user):
            return self._refused("a proof of another user than before", ANOTHER)
        self.user = user
        bounds = [each for each in (self._session_ms, token_ms) if each is not None]
        self.lasts_ms = min(bounds, default=None)
        self.ends_with_token = token_ms is not None and self.lasts_ms == token_ms
        self._step(SaslEvent.PROVED)
        return Answer(said)

    def _refused(self, reason: str, message: str = REFUSED) -> Answer:
        """`reason` is only for our log."""
        self._fail()
        failed = ErrorCode.sasl_authentication_failed
        return Answer(error=failed, reason=reason, message=message)

    def _fail(self) -> None:
        """From every state this leads to REFUSED, which has no way out."""
        self._step(SaslEvent.FAILED)

    def _step(self, event: SaslEvent) -> None:
        """Follow the transition table. Raises Fatal: an event that is not listed could authenticate
        a client that has proved nothing."""
        after = TRANSITIONS.get((self.state, event))
        if after is None:
            raise Fatal(f"SASL {self.state.value}: unlisted event {event.value}")
        self.state = after
