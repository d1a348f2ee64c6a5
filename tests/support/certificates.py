"""Authorities and certificates for tests, made by the `openssl` command: no package is needed.

Elliptic keys, for they are made in no time.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

ALTERNATIVES = "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1"
STRICT = "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid"
"""What clients of Python 3.13 want of every certificate (VERIFY_X509_STRICT)."""

TIME = "%Y%m%d%H%M%SZ"
CONFIG = """\
[ca]
default_ca = only
[only]
database = {directory}/issued
new_certs_dir = {directory}
rand_serial = yes
unique_subject = no
default_md = sha256
policy = names
[names]
commonName = supplied
"""


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its key, in files."""

    certificate: Path
    key: Path

    def pem_of_java(self) -> Path:
        """Both in one file, the key as PKCS #8, which is what Java reads."""
        path = self.certificate.with_suffix(".both.pem")
        _openssl("pkcs8", "-topk8", "-nocrypt", "-in", self.key, "-out", path)
        path.write_text(path.read_text() + self.certificate.read_text())
        return path


class Authority:
    """A CA in a directory of its own."""

    def __init__(self, directory: Path, name: str = "test CA") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self.certificate = directory / "ca.pem"
        self._key = directory / "ca.key"
        self._config = directory / "ca.cnf"
        self._config.write_text(CONFIG.format(directory=directory))
        (directory / "issued").touch()
        _new_key(self._key)
        _openssl(
            "req", "-x509", "-new", "-key", self._key, "-out", self.certificate, "-days", "3650",
            "-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign,cRLSign",
        )  # fmt: skip

    def issue(
        self, name: str, *, days: int = 30, password: str | None = None, usage: str | None = None
    ) -> Identity:
        """A certificate for `localhost` and its addresses; negative days: it has expired. `usage`
        is what it is for (extendedKeyUsage); None: anything."""
        key, certificate = self._directory / f"{name}.key", self._directory / f"{name}.pem"
        request = self._directory / f"{name}.csr"
        extensions = self._directory / f"{name}.ext"
        extended = "" if usage is None else f"extendedKeyUsage={usage}\n"
        extensions.write_text(f"{ALTERNATIVES}\n{STRICT}\n{extended}")
        _new_key(key)
        _openssl("req", "-new", "-key", key, "-out", request, "-subj", f"/CN={name}")
        end = datetime.now(UTC) + timedelta(days=days)
        begin = min(end, datetime.now(UTC)) - timedelta(days=1)
        _openssl(
            "ca", "-batch", "-config", self._config, "-cert", self.certificate, "-keyfile",
            self._key, "-in", request, "-out", certificate, "-extfile", extensions, "-notext",
            "-startdate", f"{begin:{TIME}}", "-enddate", f"{end:{TIME}}",
        )  # fmt: skip
        if password is not None:
            plain = key.with_suffix(".plain")
            key.rename(plain)
            _openssl("pkey", "-in", plain, "-aes256", "-passout", f"pass:{password}", "-out", key)
        return Identity(certificate, key)


def _new_key(path: Path) -> None:
    _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path)


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
