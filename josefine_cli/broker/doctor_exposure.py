"""The exposure of a broker according to its configuration: findings about open listeners. No I/O.

Only listeners beyond this machine count: there strangers can connect, and others can read the
traffic.
"""

from __future__ import annotations

from collections.abc import Iterator

from josefine_broker.base.addresses import is_loopback
from josefine_broker.config.broker_config import BrokerConfig
from josefine_cli.broker.findings import Finding

WALL = "restrict access to it by a firewall"


def exposures(config: BrokerConfig) -> list[Finding]:
    """The findings, all of them warnings: the network itself may be safe."""
    return [*_clients(config), *_raft(config), *_text(config), *_admin(config)]


def _clients(config: BrokerConfig) -> Iterator[Finding]:
    for listener in config.broker.listeners:
        if is_loopback(listener.host):
            continue
        protocol = config.protocol_of(listener.name)
        where = f"broker.listeners {listener}"
        if not protocol.is_tls:
            what = "records and passwords" if protocol.is_sasl else "records"
            what = f"{where} speaks {protocol.value}: {what} can be read on the network"
            yield Finding("warning", what, "use TLS: docs/how-to/security.md")
        asks_certificates = (
            protocol.is_tls and config.tls.of(listener.name).client_auth == "required"
        )
        is_named = protocol.is_sasl or asks_certificates
        if not is_named and not config.acls.enabled:
            what = f"{where} has no authentication: everyone who reaches it may do everything"
            yield Finding("warning", what, "use SASL_SSL, or set acls.enabled")


def _raft(config: BrokerConfig) -> Iterator[Finding]:
    listener = config.raft.listener
    if config.raft_tls.certificate is None and not is_loopback(listener.host):
        what = f"raft.listener {listener} is plaintext: everyone who reaches it can act as a broker"
        yield Finding("warning", what, "set raft_tls, or restrict it to the brokers' own network")


def _text(config: BrokerConfig) -> Iterator[Finding]:
    text = config.text
    if text.port is None or is_loopback(text.host):
        return
    where = f"text.port {text.host}:{text.port}"
    if not text.tls:
        yield Finding("warning", f"{where} is plaintext", f"set text.tls, or {WALL}")
    if not config.acls.enabled and not (text.tls and config.tls.client_auth == "required"):
        what = f"{where} has no authentication: everyone who reaches it may do everything"
        yield Finding("warning", what, f"set acls.enabled, or {WALL}")


def _admin(config: BrokerConfig) -> Iterator[Finding]:
    admin = config.admin
    if admin.address is None or is_loopback(admin.address.host):
        return
    where = f"admin.address {admin.address}"
    if admin.tls and config.tls.client_auth == "required":
        return
    if not config.acls.enabled:
        what = f"{where} is open to everyone who reaches it, without a password"
        yield Finding("warning", what, "restrict it to Prometheus and operators by a firewall")
    elif not admin.tls:
        what = f"{where} accepts passwords in plaintext"
        yield Finding("warning", what, f"set admin.tls, or {WALL}")
