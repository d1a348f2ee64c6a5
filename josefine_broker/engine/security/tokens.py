"""Verification of tokens: JWTs (RFC 7519) signed with RS256 or ES256 (RFC 7515), checked as in
KIP-768. Pure: keys and the time are arguments.

Nothing of a token is believed, or reported to a client, before its signature is known to be good.
PyJWT takes a token apart and checks the signature; it would compare times with a clock of its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from josefine_broker.engine.security.key_set import ES256, RS256, KeySet

ALGORITHMS = (RS256, ES256)
NAME_CHARS_MAX = 1_000
SECONDS_MAX = 2**53
TOLD_CHARS_MAX = 200
"""How much of a claim an error message shows."""


class TokenError(Exception):
    """A token that is refused."""

    def __init__(self, reason: str, *, is_signed: bool = False, lacks_key: bool = False) -> None:
        """`is_signed`: its issuer signed it, so its owner may learn the reason. `lacks_key`: it may
        be signed with a key that is not loaded yet."""
        super().__init__(reason)
        self.reason = reason
        self.is_signed = is_signed
        self.lacks_key = lacks_key


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """The tokens that are accepted."""

    issuer: str
    audience: frozenset[str]
    """One match is enough."""
    principal_claim: str = "sub"
    clock_skew_ms: int = 30_000
    """The tolerated difference between the issuer's clock and ours."""


class Holder(NamedTuple):
    """The holder of a valid token."""

    name: str
    lasts_ms: int
    """Time until the end of its validity, including the tolerated clock skew."""


def holder_of(token: str, keys: KeySet, rules: TokenRules, now_ms: int) -> Holder:
    """Verify a token. Raises TokenError; `now_ms` is Unix time."""
    claims = _signed_claims(token, keys)
    _check_address(claims, rules)
    skew_ms = rules.clock_skew_ms
    until_ms = _time_ms(claims, "exp")
    if until_ms is None:
        raise _refused("the token never expires (it has no exp)")
    # RFC 7519, 4.1.4: not accepted on or after this time.
    if now_ms >= until_ms + skew_ms:
        raise _refused(f"the token expired {(now_ms - until_ms) // 1_000} s ago")
    for claim in ("nbf", "iat"):
        begin_ms = _time_ms(claims, claim)
        if begin_ms is not None and now_ms < begin_ms - skew_ms:
            early_s = (begin_ms - now_ms) // 1_000
            raise _refused(f"the token is {early_s} s too early by its {claim}")
    name = claims.get(rules.principal_claim)
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= NAME_CHARS_MAX:
        raise _refused(f"the token has no name in {rules.principal_claim}")
    return Holder(name, until_ms + skew_ms - now_ms)


def _signed_claims(token: str, keys: KeySet) -> dict[str, Any]:
    """The claims of a token whose signature is good. Raises TokenError, without `is_signed`:
    nothing of such a token is repeated to the client."""
    from jwt import DecodeError, InvalidTokenError, PyJWS

    # PyJWT would raise UnicodeEncodeError, which is not an InvalidTokenError.
    if not token.isascii():
        raise TokenError("a token with characters that are not ASCII")
    if token.count(".") != 2:
        raise TokenError("not a signed JWT")
    jws = PyJWS(ALGORITHMS)
    try:
        header = jws.get_unverified_header(token)
    except DecodeError:
        raise TokenError("a token that is not JSON") from None
    except InvalidTokenError:  # a kid that is no text, or a crit
        raise TokenError("a token with an unsupported header") from None
    algorithm, name = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise TokenError(f"a token that is not signed with {' or '.join(ALGORITHMS)}")
    # RFC 7515, 4.1.11: an extension that is not understood makes the signature invalid. RFC 7797
    # has b64, with which the signed bytes are others.
    if "crit" in header or "b64" in header:
        raise TokenError("a token with an unsupported header")
    key = keys.find(algorithm, name)
    if key is None:
        raise TokenError(
            "a token signed with a key that is not in oauthbearer.jwks"
            if name is not None or not len(keys)
            else "a token must have a kid unless oauthbearer.jwks has one key of its algorithm",
            lacks_key=True,
        )
    try:
        # The key's algorithm decides, never the token's: no other is tried with it.
        claims = json.loads(jws.decode(token, key, algorithms=[key.algorithm_name]))
    except InvalidTokenError:
        raise TokenError("a token with an invalid signature") from None
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        claims = None
    if not isinstance(claims, dict):
        raise TokenError("a token that is not JSON")
    return claims


def _check_address(claims: dict[str, Any], rules: TokenRules) -> None:
    """Check issuer and audience."""
    if claims.get("iss") != rules.issuer:
        raise _refused(f"the issuer of the token is {_shown(claims.get('iss'))}, not ours")
    audience = claims.get("aud")
    said = audience if isinstance(audience, list) else [audience]
    if not any(isinstance(each, str) and each in rules.audience for each in said):
        raise _refused(f"the audience of the token is {_shown(audience)}, not us")


def _time_ms(claims: dict[str, Any], claim: str) -> int | None:
    """A time claim (RFC 7519, section 2); None if it is missing."""
    found = claims.get(claim)
    if found is None:
        return None
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    if not is_number or not 0 <= found < SECONDS_MAX:
        raise _refused(f"the {claim} of the token is not a valid time")
    return int(1_000 * found)


def _shown(claim: object) -> str:
    """A claim in an error message, cut: its text was chosen by the issuer, its length by nobody."""
    text = json.dumps(claim)
    return text if len(text) <= TOLD_CHARS_MAX else f"{text[:TOLD_CHARS_MAX]}…"


def _refused(reason: str) -> TokenError:
    """For a token with a good signature, whose owner may learn why it is refused."""
    return TokenError(reason, is_signed=True)
