"""Whose a certificate is, as Kafka names who shows it: against certificates that openssl makes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from josefine_broker.base.certificates import first_of_pem, subject_name


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


@pytest.mark.parametrize("der", [b"", b"\x30\x03\x02\x01\x01", b"\x30\x80", b"x" * 40])
def test_other_bytes_are_no_certificate(der: bytes) -> None:
    with pytest.raises(ValueError, match="no X"):
        subject_name(der)
