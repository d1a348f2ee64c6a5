"""Mutual TLS between brokers' Raft: which peers are admitted, and the log lines about others.

Rules: both sides show a certificate of `raft_tls.ca`; if names are listed, one of those. Nothing
from any other peer is read. One log line per reason and minute; every refusal is counted.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Collection

from josefine_broker.base.addresses import HostPort
from josefine_broker.base.certificates import subject_name
from josefine_broker.base.tls_files import reason_of
from josefine_broker.host.net.tls import SHUTDOWN_SECONDS, Tls
from josefine_broker.host.peers.raft_connection import Connection, TransportStats
from josefine_broker.host.rate_limited_log import RateLimitedLogByReason

log = logging.getLogger(__name__)

PLAIN_THERE = "closed in the TLS handshake (raft_tls on one side only?)"


class RaftTls:
    """The TLS configuration of both sides of a connection."""

    def __init__(self, tls: Tls, allowed_names: Collection[str] = ()) -> None:
        """`allowed_names` are subjects in RFC 2253 form; empty: any certificate of `ca`."""
        self.tls = tls
        self._allowed = frozenset(allowed_names)

    def why_not(self, transport: asyncio.Transport) -> str:
        """Why the peer of this handshake is refused; empty: it is admitted."""
        own_end = transport.get_extra_info("ssl_object")
        der = None if own_end is None else own_end.getpeercert(binary_form=True)
        if not der:
            return "no certificate was shown"
        try:
            name = subject_name(der)
        except ValueError as error:
            return f"the certificate that was shown {error}"
        if self._allowed and name not in self._allowed:
            return f"the certificate of {name} is not one of raft_tls.allowed_names"
        return ""


class Guard:
    """How connections of one transport start, with TLS or without."""

    def __init__(self, tls: RaftTls | None, stats: TransportStats) -> None:
        self._tls = tls
        self._stats = stats
        self._log = RateLimitedLogByReason(log, "raft TLS refused", time.monotonic, logging.WARNING)

    @property
    def tls(self) -> Tls | None:
        return None if self._tls is None else self._tls.tls

    @property
    def hint(self) -> str:
        """Why a peer may have closed the connection after a greeting."""
        tls = "" if self._tls is not None else ", or one with TLS: raft_tls is set on one side only"
        return f" (perhaps it is no raft listener{tls})"

    def why_not(self, transport: asyncio.Transport) -> str:
        return "" if self._tls is None else self._tls.why_not(transport)

    async def connect(self, connection: Connection, address: HostPort) -> None:
        """Connect to a listener; its certificate must name the dialed host. Raises OSError."""
        loop = asyncio.get_running_loop()
        if self._tls is None:
            await loop.create_connection(lambda: connection, address.host, address.port)
            return
        await loop.create_connection(
            lambda: connection,
            address.host,
            address.port,
            ssl=self._tls.tls.contexts.dialling,
            server_hostname=address.host,
            ssl_shutdown_timeout=SHUTDOWN_SECONDS,
        )

    def reason_of(self, error: OSError) -> str:
        """Why a dial failed."""
        if isinstance(error, ssl.SSLError):
            return reason_of(error)
        if self._tls is not None and isinstance(error, ConnectionResetError | BrokenPipeError):
            return PLAIN_THERE
        return error.strerror or str(error)

    def dial_failed(self, address: HostPort, error: OSError) -> None:
        """Log failures of TLS; others are logged elsewhere."""
        if isinstance(error, ssl.SSLError) or self.reason_of(error) is PLAIN_THERE:
            self.refused(str(address), self.reason_of(error))

    def handshake_failed(self, client: str, error: OSError) -> None:
        self.refused(client, reason_of(error))

    def refused(self, peer: str, reason: str) -> None:
        """The peer showed no valid certificate, or did not accept ours."""
        self._stats.handshakes_failed += 1
        self._log.report(reason, peer=peer)
