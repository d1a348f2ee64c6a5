"""Where secrets are, and what a certificate says of itself."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from josefine_broker.base.certificates import first_of_pem, valid_until_s
from josefine_broker.base.security import TLS_RECORD, SecurityProtocol, parse_secret_place
from tests.support.certificates import Authority


def test_protocols_say_what_they_protect() -> None:
    told = {each.value: (each.is_tls, each.is_sasl) for each in SecurityProtocol}

    assert told == {
        "PLAINTEXT": (False, False),
        "SSL": (True, False),
        "SASL_PLAINTEXT": (False, True),
        "SASL_SSL": (True, True),
    }


def test_secret_is_read_from_a_file_or_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("two words \n")

    assert parse_secret_place(f"file:{file}").read({}) == "two words "
    assert parse_secret_place("env:NAME").read({"NAME": "x"}) == "x"


@pytest.mark.parametrize("place", ["env:NOT_THERE", "file:/not/there"])
def test_secret_that_is_not_there_names_its_place(place: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(place)}: no such"):
        parse_secret_place(place).read({})


@pytest.mark.parametrize("days", [1, 30, -3, 20_000])
def test_certificate_tells_the_end_of_its_validity(tmp_path: Path, days: int) -> None:
    """20,000 days lie past 2049, where X.509 writes the year in another way."""
    own = Authority(tmp_path).issue("me", days=days)

    until_s = valid_until_s(first_of_pem(own.certificate.read_text()))

    wanted = datetime.now(UTC) + timedelta(days=days)
    assert abs(until_s - wanted.timestamp()) < 120


def test_no_bytes_but_a_certificates_are_believed(tmp_path: Path) -> None:
    der = first_of_pem(Authority(tmp_path).issue("me").certificate.read_text())
    until_s = valid_until_s(der)

    for length in range(len(der)):
        with pytest.raises(ValueError, match=r"is no X\.509 certificate"):
            valid_until_s(der[:length])
    assert until_s > 0
    with pytest.raises(ValueError, match="holds no certificate in PEM"):
        first_of_pem("-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----")


@pytest.mark.parametrize("said", [b"\x16\x03\x01\x02", b"\x15\x03\x03\x00", b"\x14\x03\x00\x00"])
def test_what_tls_says_first_is_no_length_of_a_frame_that_is_taken(said: bytes) -> None:
    assert TLS_RECORD.match(said)
    assert int.from_bytes(said, "big") > 320 * 1024 * 1024
