"""RS256 and ES256 against the RFC's own examples, `openssl`, and what a forger would try."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from pathlib import Path
from typing import Any

import pytest

from josefine_broker.engine.security.key_set import KeySet, parse_key_set
from josefine_broker.engine.security.tokens import TokenError, TokenRules, holder_of
from tests.support.tokens import AUDIENCE, ISSUER, TokenKey, base64url, key_set

PAYLOAD = (
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
)
"""RFC 7515, appendix A."""
RSA = {
    "kty": "RSA",
    "n": (
        "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEz"
        "P1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf6"
        "3kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5Zw"
        "Kh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRW"
        "yuXpoQ"
    ),
    "e": "AQAB",
}
RSA_TOKEN = (
    f"eyJhbGciOiJSUzI1NiJ9.{PAYLOAD}."
    "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5"
    "jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb"
    "1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QO"
    "YEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"
)
EC = {
    "kty": "EC",
    "crv": "P-256",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
}
EC_TOKEN = (
    f"eyJhbGciOiJFUzI1NiJ9.{PAYLOAD}."
    "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
)
RULES = TokenRules(issuer=ISSUER, audience=frozenset((AUDIENCE,)))
HALF = 32
N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
P = 2**256 - 2**224 + 2**192 + 2**96 - 1
"""P-256: the order of its base point, and the field of its coordinates."""


def keys_of(*keys: dict[str, Any]) -> KeySet:
    return parse_key_set(json.dumps({"keys": keys}))


def is_signed(token: str, keys: KeySet) -> bool:
    """Whether the signature is believed; of the claims, none counts here."""
    with pytest.raises(TokenError) as caught:
        holder_of(token, keys, RULES, 1_700_000_000_000)
    if not caught.value.is_signed:
        assert caught.value.reason == "a token with an invalid signature"
    return caught.value.is_signed


def with_signature(token: str, signature: bytes) -> str:
    return f"{token.rpartition('.')[0]}.{base64url(signature)}"


def signature_of(token: str) -> bytes:
    return urlsafe_b64decode(token.rpartition(".")[2] + "==")


def test_examples_of_the_rfc_are_signed() -> None:
    assert is_signed(RSA_TOKEN, keys_of(RSA))
    assert is_signed(EC_TOKEN, keys_of(EC))
    assert is_signed(EC_TOKEN, keys_of(RSA, EC))


@pytest.mark.parametrize(("key", "token"), [(RSA, RSA_TOKEN), (EC, EC_TOKEN)])
def test_changed_message_or_signature_is_not_signed(key: dict[str, Any], token: str) -> None:
    keys, signature = keys_of(key), signature_of(token)
    other = base64url(b'{"iss":"joe","exp":1300819381,"http://example.com/is_root":true}')

    assert not is_signed(token.replace(PAYLOAD, other), keys)
    for index in (0, len(signature) // 2, -1):
        changed = bytearray(signature)
        changed[index] ^= 1
        assert not is_signed(with_signature(token, bytes(changed)), keys)
    for forged in (
        b"",
        signature[:-1],
        signature + b"\0",
        b"\0" + signature,
        b"\0" * len(signature),
    ):
        assert not is_signed(with_signature(token, forged), keys)


@pytest.mark.parametrize("number", [0, N, P, 2**256 - 1])
def test_numbers_out_of_range_sign_nothing(number: int) -> None:
    """(0, 0) was taken for everybody's signature of everything by Java (CVE-2022-21449)."""
    raw, signature = number.to_bytes(HALF, "big"), signature_of(EC_TOKEN)

    for forged in (raw + signature[HALF:], signature[:HALF] + raw, raw + raw):
        assert not is_signed(with_signature(EC_TOKEN, forged), keys_of(EC))


def number(value: int) -> str:
    return base64url(value.to_bytes(value.bit_length() // 8 + 1, "big"))


MODULUS = int.from_bytes(urlsafe_b64decode(RSA["n"] + "=="), "big")


@pytest.mark.parametrize(
    "key",
    [
        {**EC, "x": base64url(bytes(HALF)), "y": base64url(bytes(HALF))},
        {**EC, "y": f"y{EC['y'][1:]}"},
        {**EC, "y": base64url(b"\0" + urlsafe_b64decode(EC["y"] + "="))},
        {**RSA, "n": number(MODULUS >> 8 | 1)},
        {**RSA, "e": number(1)},
        {**RSA, "e": number(65_536)},
        {**RSA, "e": number(2**32 + 1)},
        {**RSA, "n": number(2**8193 + 1)},
        {**RSA, "n": number(2**2048 - 2)},
    ],
)
def test_key_that_is_none_is_passed_over(key: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="has no public key for RS256 or ES256"):
        keys_of(key)


def test_of_a_private_key_only_the_public_half_is_read() -> None:
    keys = keys_of({**EC, "d": "x"}, {**RSA, "kid": "r", "d": number(3), "p": "", "oth": []})

    assert len(keys) == 2
    assert is_signed(EC_TOKEN, keys)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_what_openssl_signs_is_signed(tmp_path: Path, algorithm: str) -> None:
    private = TokenKey(tmp_path, "k", algorithm)
    keys = parse_key_set(key_set(private))

    for size in (1, 10, 10_000):
        token = private.token("x" * size, aud="nobody")
        assert is_signed(token, keys)
        assert not is_signed(with_signature(token, signature_of(token)[::-1]), keys)
