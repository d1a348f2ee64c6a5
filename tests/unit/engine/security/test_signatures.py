"""RS256 and ES256 against the RFC's own examples, `openssl`, and what a forger would try."""

from __future__ import annotations

from pathlib import Path

import pytest

from josefine_broker.engine.security.key_set import from_base64url, parse_key_set
from josefine_broker.engine.security.signatures import NUMBER_BYTES, EcKey, RsaKey
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
N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
P = 2**256 - 2**224 + 2**192 + 2**96 - 1
"""P-256: the order of its base point, and the field of its coordinates."""


def test_examples_of_the_rfc_are_signed() -> None:
    assert RSA.checked().signed(RSA_SIGNED, RSA_SIGNATURE)
    assert EC.checked().signed(EC_SIGNED, EC_SIGNATURE)


@pytest.mark.parametrize(
    ("key", "message", "signature"),
    [(RSA, RSA_SIGNED, RSA_SIGNATURE), (EC, EC_SIGNED, EC_SIGNATURE)],
)
def test_changed_message_or_signature_is_not_signed(
    key: RsaKey | EcKey, message: bytes, signature: bytes
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


@pytest.mark.parametrize(
    "key",
    [
        EcKey(0, 0),
        EcKey(EC.x, EC.y ^ 1),
        RsaKey(RSA.modulus >> 8 | 1, 65_537),
        RsaKey(RSA.modulus, 1),
        RsaKey(RSA.modulus, 65_536),
        RsaKey(2**8193 + 1, 65_537),
        RsaKey(2**2048 - 2, 65_537),
    ],
)
def test_key_that_is_none_is_refused(key: RsaKey | EcKey) -> None:
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
