"""Tokens for tests, signed by keys that the `openssl` command makes: no package is needed."""

from __future__ import annotations

import http.server
import json
import re
import ssl
import subprocess
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ISSUER, AUDIENCE = "https://authority.test/", "josefine"


def base64url(raw: bytes) -> str:
    """As JOSE has it."""
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


class TokenKey:
    """A private key in a file, and what it signs."""

    def __init__(self, directory: Path, name: str, algorithm: str = "ES256", *, bits: int = 2048):
        self.name, self.algorithm = name, algorithm
        self._path = directory / f"{name}.key"
        kind = (
            ("EC", "-pkeyopt", "ec_paramgen_curve:P-256")
            if algorithm == "ES256"
            else ("RSA", "-pkeyopt", f"rsa_keygen_bits:{bits}")
        )
        _openssl("genpkey", "-algorithm", *kind, "-out", str(self._path))

    def jwk(self) -> dict[str, Any]:
        """Its public half, as in a JWKS."""
        der = _openssl("pkey", "-in", str(self._path), "-pubout", "-outform", "DER")
        said: dict[str, Any] = {"kid": self.name, "alg": self.algorithm, "use": "sig"}
        if self.algorithm == "ES256":
            x, y = der[-64:-32], der[-32:]
            return {**said, "kty": "EC", "crv": "P-256", "x": base64url(x), "y": base64url(y)}
        text = _openssl("rsa", "-in", str(self._path), "-noout", "-modulus").decode()
        modulus = bytes.fromhex(text.strip().removeprefix("Modulus="))
        return {**said, "kty": "RSA", "n": base64url(modulus), "e": "AQAB"}

    def signed(self, message: bytes) -> bytes:
        """As JOSE has it: r and s of ES256 are 32 bytes each."""
        signature = _openssl("dgst", "-sha256", "-sign", str(self._path), given=message)
        if self.algorithm != "ES256":
            return signature
        shown = _openssl("asn1parse", "-inform", "DER", given=signature).decode()
        return b"".join(
            bytes.fromhex(each.zfill(64)) for each in re.findall(r":([0-9A-F]+)\n", shown)
        )

    def token(self, name: str = "alice", *, lasts_s: float = 600, **claims: Any) -> str:
        """A good one, but for what `claims` replace; None leaves one out."""
        said = {"iss": ISSUER, "aud": AUDIENCE, "sub": name, "exp": time.time() + lasts_s}
        return self.of({"alg": self.algorithm, "kid": self.name}, {**said, **claims})

    def of(self, header: dict[str, Any], claims: dict[str, Any]) -> str:
        """Of these words, whatever they are."""
        parts = ({k: v for k, v in each.items() if v is not None} for each in (header, claims))
        message = ".".join(base64url(json.dumps(each).encode()) for each in parts)
        return f"{message}.{base64url(self.signed(message.encode()))}"


def key_set(*keys: TokenKey) -> str:
    """The text of a JWKS."""
    return json.dumps({"keys": [each.jwk() for each in keys]})


class KeyServer(http.server.ThreadingHTTPServer):
    """Gives `body` with `status`, and at /other always 200, where 302 sends whoever follows."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _KeyHandler)
        self.status, self.body, self.asked = 200, b"", 0
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self.server_address[1]}/keys"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that do not believe the certificate hang up."""


class _KeyHandler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, KeyServer)
        server.asked += 1
        self.send_response(200 if self.path == "/other" else server.status)
        if server.status == 302:
            self.send_header("Location", "/other")
        self.send_header("Content-Length", str(len(server.body)))
        self.end_headers()
        self.wfile.write(server.body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def key_server(tls: ssl.SSLContext | None = None) -> Iterator[KeyServer]:
    """One that serves."""
    server = KeyServer(tls)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _openssl(*words: str, given: bytes | None = None) -> bytes:
    done = subprocess.run(("openssl", *words), input=given, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout
