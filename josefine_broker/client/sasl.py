"""Client authentication: the tokens of PLAIN, SCRAM and OAUTHBEARER, without the socket."""

from __future__ import annotations

from typing import Any

from josefine_broker.base import oauth
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.scram import ScramError, client_final, client_first
from josefine_broker.client.security import Security
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e

PLAIN = "PLAIN"


class Login:
    """One connection's authentication: `request`, then `hear` its answer, until it returns True."""

    __slots__ = ("_awaited", "_bearer", "_first", "_refused", "_security", "_token")

    def __init__(self, security: Security, nonce: str, bearer: str = "") -> None:
        """`nonce` is random, printable, without comma, and used once; `bearer` is the OAUTHBEARER
        token."""
        self._security = security
        self._bearer = bearer
        self._refused = ""
        """The broker's reason of a refusal; the broker then expects an acknowledgement."""
        self._first = client_first(security.username, nonce)
        self._token: bytes | None = None
        """None: the mechanism is not chosen yet."""
        self._awaited: str | None = None
        """The final message with which the broker must prove that it knows the password too."""

    def request(self) -> tuple[int, Any]:
        """API key and request to send next."""
        if self._token is None:
            mechanism = self._security.mechanism
            return apis.SASL_HANDSHAKE, e.sasl_handshake.SaslHandshakeRequest(mechanism=mechanism)
        return apis.SASL_AUTHENTICATE, e.sasl_authenticate.SaslAuthenticateRequest(
            auth_bytes=self._token
        )

    def hear(self, response: Any) -> bool:
        """Whether the login is complete. Raises KafkaError for a refusal."""
        security = self._security
        if self._token is None:
            if response.error_code is not ErrorCode.none:
                served = ", ".join(response.mechanisms) or "none"
                raise KafkaError(
                    response.error_code,
                    f"the broker does not take sasl.mechanism={security.mechanism}"
                    f" (it takes {served})",
                )
            self._token = self._first.encode()
            if security.mechanism == PLAIN:
                self._token = f"\0{security.username}\0{security.password}".encode()
            elif security.mechanism == oauth.OAUTHBEARER:
                self._token = oauth.client_first(self._bearer)
            return False
        if security.mechanism == oauth.OAUTHBEARER:
            return self._hear_of_bearer(response)
        if response.error_code is not ErrorCode.none:
            raise KafkaError(
                response.error_code,
                f"user {security.username!r}: {response.error_message or 'authentication failed'}",
            )
        if security.mechanism == PLAIN:
            return True
        # Mutual authentication: a broker that cannot prove the password is not ours (RFC 5802).
        if self._awaited is not None:
            if bytes(response.auth_bytes).decode(errors="replace") != self._awaited:
                raise KafkaError(
                    ErrorCode.sasl_authentication_failed, "the broker does not know our password"
                )
            return True
        try:
            final, self._awaited = client_final(
                security.mechanism, security.password, self._first, response.auth_bytes
            )
        except ScramError as error:
            raise KafkaError(ErrorCode.sasl_authentication_failed, str(error)) from None
        self._token = final.encode()
        return False

    def _hear_of_bearer(self, response: Any) -> bool:
        if response.error_code is not ErrorCode.none:
            why = self._refused or response.error_message or "authentication failed"
            raise KafkaError(response.error_code, f"token of {self._security.token}: {why}")
        if self._refused:  # accepted after a refusal
            raise KafkaError(ErrorCode.sasl_authentication_failed, self._refused)
        challenge = bytes(response.auth_bytes)
        if not challenge:
            return True
        self._refused = oauth.told(challenge)
        self._token = oauth.ACKNOWLEDGED
        return False
