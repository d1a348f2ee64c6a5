"""Whose a certificate is, as Kafka names who shows it: against certificates that openssl makes."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime
from pathlib import Path
from warnings import catch_warnings

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type

from josefine_broker.base.certificates import first_of_pem, subject_name, valid_until_s
from tests.support.certificates import Authority


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("/CN=alice", "CN=alice"),
        ("/C=DE/O=Ours/OU=a\\+b/CN=alice", "CN=alice,OU=a\\+b,O=Ours,C=DE"),
        ("/O=Ours, Inc./CN=a;b", "CN=a\\;b,O=Ours\\, Inc."),
        ("/CN= a ", "CN=\\ a\\ "),
        ("/CN=Zoë", "CN=Zoë"),
        ("/DC=org/UID=u1/CN=x", "CN=x,UID=u1,DC=org"),
        ("/CN=x/emailAddress=a@b", "1.2.840.113549.1.9.1=#1603614062,CN=x"),
        ('/CN=#x/O= /OU=\\\\a"<>', 'OU=\\\\a\\"\\<\\>,O=\\ ,CN=\\#x'),
    ],
)
def test_subject_is_named_from_the_inside_and_escaped(
    tmp_path: Path, subject: str, name: str
) -> None:
    """RFC 2253."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-utf8", "-keyout", "k.pem", "-out", "c.pem", "-days", "1", "-subj", subject],
        cwd=tmp_path, check=True, capture_output=True,
    )  # fmt: skip

    assert subject_name(first_of_pem((tmp_path / "c.pem").read_text())) == name


def issued(*parts: list[tuple[str, str, _ASN1Type]], version: int = 2) -> bytes:
    """A certificate of this subject; each part has (identifier, value, type) of its attributes."""
    key = Ed25519PrivateKey.generate()
    made = [
        x509.RelativeDistinguishedName(
            [
                x509.NameAttribute(x509.ObjectIdentifier(oid), value, kind, _validate=False)
                for oid, value, kind in part
            ]
        )
        for part in parts
    ]
    builder = x509.CertificateBuilder(
        x509.Name([]), x509.Name(made), key.public_key(), 1, datetime(2020, 1, 1), datetime.max
    )
    der = builder.sign(key, None).public_bytes(Encoding.DER)
    return der.replace(b"\xa0\x03\x02\x01\x02", bytes([0xA0, 3, 2, 1, version]), 1)


CN, OU, EMAIL, OF_NOBODY = "2.5.4.3", "2.5.4.11", "1.2.840.113549.1.9.1", "2.999.1"


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        ([], ""),
        ([[(CN, "a", _ASN1Type.UTF8String), (OU, "b,", _ASN1Type.UTF8String)]], "CN=a+OU=b\\,"),
        ([[(CN, "Zoë", _ASN1Type.BMPString)]], "CN=Zoë"),
        ([[(CN, "Zoë", _ASN1Type.UniversalString)]], "CN=Zoë"),
        ([[(OF_NOBODY, "ab", _ASN1Type.PrintableString)]], "2.999.1=#13026162"),
        ([[(EMAIL, "x" * 300, _ASN1Type.IA5String)]], f"{EMAIL}=#1682012c{'78' * 300}"),
        ([[(CN, "x" * 65, _ASN1Type.UTF8String)]], f"CN={'x' * 65}"),  # X.520 allows 64
    ],
)
def test_values_of_every_type_and_length_are_named(
    parts: list[list[tuple[str, str, _ASN1Type]]], name: str
) -> None:
    with catch_warnings(action="ignore"):
        der = issued(*parts)

    with catch_warnings(action="error"):
        assert subject_name(der) == name


@pytest.mark.parametrize("kind", [0x02, 0x03, 0x05, 0x30, 0x1F])
def test_a_value_that_is_no_text_is_refused(kind: int) -> None:
    text = issued([(CN, "abc", _ASN1Type.UTF8String)])
    assert text.count(b"\x0c\x03abc") == 1

    with pytest.raises(ValueError, match="no X"):
        subject_name(text.replace(b"\x0c\x03abc", bytes([kind]) + b"\x03abc"))


@pytest.mark.parametrize("version", [3, 127])
def test_a_version_that_there_is_not_is_no_certificate(version: int) -> None:
    der = issued(version=version)

    for read in (subject_name, valid_until_s):
        with pytest.raises(ValueError, match="no X"):
            read(der)


def test_a_client_of_good_files_does_not_load_the_library(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    own = authority.issue("me")
    program = (
        "import ssl, sys\n"
        "from josefine_broker.base.tls_files import OwnNames, load_ca, load_own\n"
        "context = ssl.create_default_context()\n"
        f"load_ca(context, {str(authority.certificate)!r}, 'ca')\n"
        "names = OwnNames('certificate', 'key', 'password')\n"
        f"load_own(context, {str(own.certificate)!r}, {str(own.key)!r}, None, names)\n"
        "sys.exit('cryptography' in sys.modules)\n"
    )

    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("der", [b"", b"\x30\x03\x02\x01\x01", b"\x30\x80", b"x" * 40])
def test_other_bytes_are_no_certificate(der: bytes) -> None:
    with pytest.raises(ValueError, match="no X"):
        subject_name(der)
