"""The keys by which tokens are checked, as they are now: those of a file, read again when it
changes, or of an address, asked again after a time and when a token names a key that is unknown.

Keys that cannot be had leave those of before, and are told once a minute.
"""

from __future__ import annotations

import http.client
import logging
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from josefine_broker.engine.security.key_set import BYTES_MAX, NO_KEYS, KeySet, parse_key_set
from josefine_broker.engine.security.tokens import Holder, TokenError, TokenRules, holder_of
from josefine_broker.host.net.file_stamp import look_at
from josefine_broker.host.rate_limited_log import RateLimitedLog
from josefine_broker.host.worker import Breathe

log = logging.getLogger(__name__)

TIMEOUT_S = 5.0
FETCH_MS_MAX = 10_000
"""TIMEOUT_S is of one read: who sends a byte at a time ends here."""
PIECE_BYTES = 64 * 1024
RETRY_MS = 10_000
"""Between two questions at the least: an address that fails, and tokens of keys that nobody has,
cost so much and no more."""


class KeysError(ValueError):
    """The keys cannot be had; the message is one sentence for the user."""


class TokenKeys(Protocol):
    """Used on the event loop only."""

    keys: KeySet
    reload_failures: int

    def reload_changed(self) -> None:
        """A duty of the ticker."""

    def lacks_key(self) -> None:
        """A token named one that is not known."""


class FileKeys:
    """Implements TokenKeys, as of a file."""

    def __init__(self, path: Path) -> None:
        """Raises KeysError."""
        self._path = path
        self._seen = look_at(self._path)
        self.keys = self._load()
        self.reload_failures = 0

    def reload_changed(self) -> None:
        """See TokenKeys."""
        seen = look_at(self._path)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self.keys = self._load()
        except KeysError as error:
            self.reload_failures += 1
            log.warning("keys changed and cannot be used", extra={"reason": str(error)})
            return
        log.info("keys read again", extra={"file": str(self._path), "keys": len(self.keys)})

    def lacks_key(self) -> None:
        """The file would have been read."""

    def _load(self) -> KeySet:
        try:
            with open(self._path, "rb") as file:
                text = file.read(BYTES_MAX + 1)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise KeysError(f"oauthbearer.jwks: {self._path}: {reason}") from None
        return _parsed(text, str(self._path))


class Fetched(NamedTuple):
    """What an address gave: text, or a reason why not."""

    text: bytes = b""
    failed: str = ""


Submit = Callable[
    [Callable[[Breathe], Fetched], Callable[[], bool], Callable[[Fetched | None], None]], None
]
"""As `Worker.submit`."""


class AddressKeys:
    """Implements TokenKeys, as of an address. Without keys until the address gave some."""

    def __init__(
        self,
        url: str,
        context: ssl.SSLContext | None,
        refresh_ms: int,
        submit: Submit,
        monotonic_ms: Callable[[], int],
    ) -> None:
        """`context` is for https; `monotonic_ms` is asked on a thread too."""
        self._url = url
        self._opener = _opener(url, context)
        self._refresh_ms = refresh_ms
        self._submit = submit
        self._monotonic_ms = monotonic_ms
        self._log_failed = RateLimitedLog(
            log, "keys cannot be had", lambda: monotonic_ms() / 1_000, logging.WARNING
        )
        self._asked_ms: int | None = None
        self._is_asking = False
        self._is_due = True
        self.keys = NO_KEYS
        self.reload_failures = 0

    def reload_changed(self) -> None:
        """See TokenKeys."""
        now_ms = self._monotonic_ms()
        if self._is_asking:
            return
        if self._asked_ms is not None:
            waited_ms = now_ms - self._asked_ms
            if waited_ms < (RETRY_MS if self._is_due else self._refresh_ms):
                return
        self._asked_ms, self._is_asking = now_ms, True
        self._submit(self._fetch, lambda: True, self._have)

    def lacks_key(self) -> None:
        """See TokenKeys."""
        self._is_due = True

    def _have(self, fetched: Fetched | None) -> None:
        self._is_asking = False
        failed = "the request failed" if fetched is None else fetched.failed
        if not failed:
            assert fetched is not None
            try:
                self.keys = _parsed(fetched.text, self._url)
            except KeysError as error:
                failed = str(error)
        self._is_due = bool(failed)
        if failed:
            self.reload_failures += 1
            self._log_failed.report(url=self._url, reason=failed)
        else:
            log.info("keys read", extra={"url": self._url, "keys": len(self.keys)})

    def _fetch(self, _breathe: Breathe) -> Fetched:
        """On a thread."""
        until_ms = self._monotonic_ms() + FETCH_MS_MAX
        request = urllib.request.Request(self._url, headers={"Accept": "application/json"})
        pieces, size = [], 0
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as answer:
                while size <= BYTES_MAX and (piece := answer.read1(PIECE_BYTES)):
                    pieces.append(piece)
                    size += len(piece)
                    if self._monotonic_ms() > until_ms:
                        return Fetched(failed=f"no end after {FETCH_MS_MAX // 1_000} s")
        except urllib.error.HTTPError as error:
            with error:
                return Fetched(failed=f"HTTP status {error.code}")
        except http.client.HTTPException as error:
            return Fetched(failed=f"no HTTP ({type(error).__name__})")
        except OSError as error:
            return Fetched(failed=str(getattr(error, "reason", error)).lower())
        return Fetched(b"".join(pieces))


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Whoever the address belongs to is believed, and nobody whom it names."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _opener(url: str, context: ssl.SSLContext | None) -> urllib.request.OpenerDirector:
    handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
    if context is not None:
        handlers.append(urllib.request.HTTPSHandler(context=context))
    if url.startswith("http:"):  # this machine: no proxy knows the way
        handlers.append(urllib.request.ProxyHandler({}))
    return urllib.request.build_opener(*handlers)


class Bearers:
    """Judges tokens by rules and by the keys as they are now."""

    def __init__(self, keys: TokenKeys, rules: TokenRules, now_ms: Callable[[], int]) -> None:
        self._keys = keys
        self._rules = rules
        self._now_ms = now_ms

    def judge(self, token: str) -> Holder:
        """Raises TokenError."""
        try:
            return holder_of(token, self._keys.keys, self._rules, self._now_ms())
        except TokenError as error:
            if error.lacks_key:
                self._keys.lacks_key()
            raise


def _parsed(text: bytes, where: str) -> KeySet:
    if len(text) > BYTES_MAX:
        raise KeysError(f"oauthbearer.jwks: {where} is larger than {BYTES_MAX} bytes")
    try:
        return parse_key_set(text.decode())
    except UnicodeDecodeError:
        raise KeysError(f"oauthbearer.jwks: {where} is not UTF-8") from None
    except ValueError as error:
        raise KeysError(f"oauthbearer.jwks: {where} {error}") from None
