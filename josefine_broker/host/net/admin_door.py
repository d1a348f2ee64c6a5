"""Who may look at the pages of the admin listener, where ACLs say who may do what: whoever may
DESCRIBE the cluster, by HTTP's Basic authentication (RFC 7617) with a user's password, by a Bearer
token (RFC 6750) where OAUTHBEARER is served, by the certificate that TLS asked for, or without any
as `User:ANONYMOUS`. `/health` is everybody's.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from josefine_broker.base.security import ANONYMOUS
from josefine_broker.engine.security.sasl import BEARER_BYTES_MAX, Judge, Users, no_judge
from josefine_broker.engine.security.tokens import TokenError
from josefine_broker.host.net.tls import shown_name

REALM = 'Basic realm="josefine"'
NOBODY = "wrong user or password, or a token that does not count:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """What is asked before a page is shown."""

    users: Callable[[], Users | None]
    may_look: Callable[[str, str], bool]
    """(principal, address)"""
    failure_delay_ms: int
    judge: Judge = no_judge
    """Of tokens, as they count now."""

    async def refusal(self, request: web.Request) -> web.Response | None:
        """None: come in."""
        shown = "" if request.transport is None else shown_name(request.transport)
        header = request.headers.get("Authorization")
        principal = (shown or ANONYMOUS) if header is None else self._principal(header)
        if principal is not None and self.may_look(principal, request.remote or ""):
            return None
        if principal is None:
            await asyncio.sleep(self.failure_delay_ms / 1_000)
        status = 401 if principal in (None, ANONYMOUS) else 403
        return web.json_response(
            {"error": f"{principal or NOBODY} may not DESCRIBE the cluster"},
            status=status,
            headers={"WWW-Authenticate": REALM} if status == 401 else None,
        )

    def _principal(self, header: str) -> str | None:
        """None: that is not the password, or no token that counts."""
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
