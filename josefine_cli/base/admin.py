"""Requests to the admin address of a broker, over HTTP."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import urllib.error
import urllib.request
from typing import Any

from josefine_broker.base.tls_files import reason_of
from josefine_cli.base.client_config import http_headers, tls_context
from josefine_cli.base.errors import UserError

DEFAULT_ADMIN = "http://127.0.0.1:9644"
ASK_TIMEOUT_S = 3.0


def ask(url: str, path: str, *, acts: bool = False) -> dict[str, Any]:
    """The JSON at an admin address, as `ask_text`. Raises UserError also if it is not JSON."""
    text = ask_text(url, path, acts=acts)
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UserError(f"no broker answers at {url}: {str(error).lower()}") from error
    if not isinstance(found, dict):
        raise UserError(f"{url}{path} is not what a broker answers")
    return found


def ask_text(url: str, path: str, *, acts: bool = False) -> str:
    """The page at an admin address, or the answer to an action; https uses the settings `ssl.*` of
    the client configuration, authentication its `sasl.*`. Raises UserError, TlsError."""
    headers = http_headers(url, os.environ) | ({"Content-Type": "application/json"} if acts else {})
    where = urllib.request.Request(
        url.rstrip("/") + path, headers=headers, data=b"{}" if acts else None
    )
    tls = tls_context(os.environ, url) if url.startswith("https:") else None
    try:
        with urllib.request.urlopen(where, timeout=ASK_TIMEOUT_S, context=tls) as answer:
            text: str = answer.read().decode()
    except urllib.error.HTTPError as error:
        hint = ""
        if error.code == http.HTTPStatus.UNAUTHORIZED and not where.has_header("Authorization"):
            hint = "; give credentials with --client-config, for an address with https://"
        raise UserError(f"{url}{path} answers {error.code}: {_said(error)}{hint}") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise UserError(f"no broker answers at {url}: {_why(error, tls is not None)}") from error
    return text


def _why(error: Exception, is_tls: bool) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(reason, ssl.SSLError):
        return reason_of(reason)
    hung_up = isinstance(reason, ConnectionError) and not isinstance(reason, ConnectionRefusedError)
    if not is_tls and (hung_up or isinstance(reason, http.client.HTTPException)):
        return "it closed the connection; if it speaks TLS (admin.tls), use https://"
    return str(getattr(reason, "strerror", None) or reason).lower()


def _said(error: urllib.error.HTTPError) -> str:
    try:
        with error:
            return str(json.load(error)["error"])
    except (OSError, ValueError, KeyError, TypeError):
        return error.reason
