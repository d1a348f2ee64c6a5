"""Access control of the admin pages where ACLs are enabled: a client needs DESCRIBE on the cluster,
and ALTER for an action.
It is identified by HTTP Basic authentication (RFC 7617) with a user's password, by a Bearer token
(RFC 6750) where OAUTHBEARER is served, by its TLS certificate, or else as `User:ANONYMOUS`.
`/health` is public. A failed login is delayed, and so is the next attempt.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web

from josefine_broker.base.security import ANONYMOUS
from josefine_broker.engine.limits.login_backoff import Guesses, Slot
from josefine_broker.engine.security.sasl import BEARER_BYTES_MAX, Judge, Users, no_judge
from josefine_broker.engine.security.tokens import TokenError
from josefine_broker.host.clock import RealClock
from josefine_broker.host.metrics import ConnectionStats
from josefine_broker.host.net.admin_log import seconds
from josefine_broker.host.net.tls import shown_name
from josefine_broker.host.rate_limited_log import RateLimitedLog

log = logging.getLogger(__name__)

REALM = 'Basic realm="josefine"'
TOO_MANY = "too many wrong passwords from this address, try again later"
NOBODY = "wrong user or password, or a token that does not count:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """The access check before a page is shown."""

    users: Callable[[], Users | None]
    may_look: Callable[[str, str], bool]
    """(principal, address)"""
    failure_delay_ms: int
    may_act: Callable[[str, str], bool] = lambda principal, address: False
    """The same for actions."""
    judge: Judge = no_judge
    """Judges tokens by the current keys."""
    stats: ConnectionStats = field(default_factory=ConnectionStats)
    guesses: Guesses = field(default_factory=Guesses)
    """Shared with the listeners that use SASL."""
    monotonic_ms: Callable[[], int] = RealClock().monotonic_ms
    log_refused: RateLimitedLog = field(
        default_factory=lambda: RateLimitedLog(log, "admin login refused", seconds, logging.WARNING)
    )

    async def refusal(self, request: web.Request, *, acts: bool = False) -> web.Response | None:
        """The refusal of a page, or of an action; None: access is granted."""
        shown = "" if request.transport is None else shown_name(request.transport)
        header, address = request.headers.get("Authorization"), request.remote or ""
        principal: str | None = shown or ANONYMOUS
        if header is not None:
            slot, wait_ms = self.guesses.ask(address, self.monotonic_ms())
            self.stats.authentication_delayed += slot is not Slot.FREE
            if slot is Slot.NONE:
                self._wrong(address, TOO_MANY)
                return web.json_response({"error": TOO_MANY}, status=429)
            if wait_ms:  # a free slot is used before another request asks for one
                await asyncio.sleep(wait_ms / 1_000)
            principal = self._principal(header)
            self._noted(slot, address, is_right=principal is not None)
        may = self.may_act if acts else self.may_look
        if principal is not None and may(principal, address):
            return None
        if principal is None:
            self._wrong(address, "wrong user or password, or a token that does not count")
            await asyncio.sleep(self.failure_delay_ms / 1_000)
        status = 401 if principal in (None, ANONYMOUS) else 403
        what = "ALTER" if acts else "DESCRIBE"
        return web.json_response(
            {"error": f"{principal or NOBODY} may not {what} the cluster"},
            status=status,
            headers={"WWW-Authenticate": REALM} if status == 401 else None,
        )

    def _noted(self, slot: Slot, address: str, *, is_right: bool) -> None:
        if is_right and slot is Slot.TAKEN:
            self.guesses.give_back(address)
        elif not is_right and slot is Slot.FREE:
            self.guesses.wrong(address, self.monotonic_ms())

    def _wrong(self, address: str, reason: str) -> None:
        """Count a failed login and log it once a minute: guessing clients fail often."""
        self.stats.admin_refused += 1
        self.log_refused.report(client=address, reason=reason)

    def _principal(self, header: str) -> str | None:
        """The principal; None: wrong password or invalid token."""
        kind, _, token = header.partition(" ")
        if kind.lower() == "bearer":
            return self._bearer(token)
        users = self.users()
        if kind.lower() != "basic" or users is None:
            return None
        try:
            user, _, password = base64.b64decode(token, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return None
        return f"User:{user}" if users.has(user, password) else None

    def _bearer(self, token: str) -> str | None:
        if len(token) > BEARER_BYTES_MAX:
            return None
        try:
            return f"User:{self.judge(token).name}"
        except TokenError:
            return None
