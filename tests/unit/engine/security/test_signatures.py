"""RS256 and ES256 against the RFC's own examples, `openssl`, and what a forger would try."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from josefine_broker.engine.security.key_set import from_base64url, parse_key_set
from josefine_broker.engine.security.signatures import (
    BASE_X,
    BASE_Y,
    NUMBER_BYTES,
    SHA256_INFO,
    EcKey,
    Key,
    N,
    P,
    RsaKey,
)
from tests.support.tokens import TokenKey, key_set

PAYLOAD = (
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
)
"""RFC 7515, appendix A."""
RSA = RsaKey(
    int.from_bytes(
        from_base64url(
            "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEz"
            "P1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf6"
            "3kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5Zw"
            "Kh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRW"
            "yuXpoQ"
        ),
        "big",
    ),
    65_537,
)
RSA_SIGNED = f"eyJhbGciOiJSUzI1NiJ9.{PAYLOAD}".encode()
RSA_SIGNATURE = from_base64url(
    "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5"
    "jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb"
    "1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QO"
    "YEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"
)
EC = EcKey(
    int.from_bytes(from_base64url("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"), "big"),
    int.from_bytes(from_base64url("x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"), "big"),
)
EC_SIGNED = f"eyJhbGciOiJFUzI1NiJ9.{PAYLOAD}".encode()
EC_SIGNATURE = from_base64url(
    "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
)
HALF = NUMBER_BYTES


def test_examples_of_the_rfc_are_signed() -> None:
    assert RSA.checked().signed(RSA_SIGNED, RSA_SIGNATURE)
    assert EC.checked().signed(EC_SIGNED, EC_SIGNATURE)


@pytest.mark.parametrize(
    ("key", "message", "signature"),
    [(RSA, RSA_SIGNED, RSA_SIGNATURE), (EC, EC_SIGNED, EC_SIGNATURE)],
)
def test_changed_message_or_signature_is_not_signed(
    key: Key, message: bytes, signature: bytes
) -> None:
    assert not key.signed(message + b"x", signature)
    for index in (0, len(signature) // 2, -1):
        changed = bytearray(signature)
        changed[index] ^= 1
        assert not key.signed(message, bytes(changed))
    for other in (
        b"",
        signature[:-1],
        signature + b"\0",
        b"\0" + signature,
        b"\0" * len(signature),
    ):
        assert not key.signed(message, other)


@pytest.mark.parametrize("number", [0, N, P, 2**256 - 1])
def test_numbers_out_of_range_sign_nothing(number: int) -> None:
    """(0, 0) was taken for everybody's signature of everything by Java (CVE-2022-21449)."""
    raw = number.to_bytes(HALF, "big")

    for signature in (raw + EC_SIGNATURE[HALF:], EC_SIGNATURE[:HALF] + raw, raw + raw):
        assert not EC.signed(EC_SIGNED, signature)


def test_padding_is_looked_at_as_a_whole() -> None:
    """Where a part of it was passed over, forgers needed no key (CVE-2006-4339). The signatures of
    this key, whose exponent is 1, are what they stand for."""
    key = RsaKey(RSA.modulus, 1)
    info = SHA256_INFO + hashlib.sha256(b"m").digest()
    good = b"\x00\x01" + b"\xff" * (253 - len(info)) + b"\x00" + info
    assert key.signed(b"m", good)

    assert not key.signed(b"m", (b"\x00\x01\xff\x00" + info).ljust(256, b"\x00"))
    assert not key.signed(b"m", (b"\x00\x01\xff\x00" + info).rjust(256, b"\x00"))
    assert not key.signed(b"m", b"\x00\x02" + good[2:])
    assert not key.signed(b"m", good[:100] + b"\xfe" + good[101:])
    assert not key.signed(b"m", good[: -len(info) - 1] + b"\x01" + info)
    above = int.from_bytes(good, "big") + RSA.modulus
    assert not key.signed(b"m", above.to_bytes(256, "big"))


def test_sum_that_comes_to_infinity_signs_nothing() -> None:
    """Keys of which a multiple is known: their sums meet every case of addition."""
    hashed = int.from_bytes(hashlib.sha256(b"m").digest(), "big")
    minus_base, base = EcKey(BASE_X, P - BASE_Y).checked(), EcKey(BASE_X, BASE_Y).checked()

    r = (hashed % N).to_bytes(HALF, "big")  # u1 · BASE + u2 · (-BASE) with u1 = u2
    assert not minus_base.signed(b"m", r + r)
    assert not base.signed(b"m", r + r)
    # A private key of 1: s = (hash + r) / k for the nonce k = 1, whose r is BASE's x.
    s = (hashed + BASE_X) % N
    signature = (BASE_X % N).to_bytes(HALF, "big") + s.to_bytes(HALF, "big")
    assert base.signed(b"m", signature)


@pytest.mark.parametrize(
    "key",
    [
        EcKey(0, 0),
        EcKey(EC.x, EC.y ^ 1),
        EcKey(EC.x + P, EC.y),
        RsaKey(RSA.modulus >> 8 | 1, 65_537),
        RsaKey(RSA.modulus, 1),
        RsaKey(RSA.modulus, 65_536),
        RsaKey(2**8193 + 1, 65_537),
        RsaKey(2**2048 - 2, 65_537),
    ],
)
def test_key_that_is_none_is_refused(key: Key) -> None:
    with pytest.raises(ValueError, match=r"a key|an RSA key"):
        key.checked()


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_what_openssl_signs_is_signed(tmp_path: Path, algorithm: str) -> None:
    private = TokenKey(tmp_path, "k", algorithm)
    public = parse_key_set(key_set(private)).find(algorithm, "k")
    assert public is not None

    for message in (b"", b"one", b"another" * 1_000):
        signature = private.signed(message)
        assert public.signed(message, signature)
        assert not public.signed(message + b"x", signature)
