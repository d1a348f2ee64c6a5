"""Who may reach what of a broker, by its configuration alone, and in what words it is told. No I/O.

Beyond this machine: there a stranger can dial, and whoever is on the way can listen.
"""

from __future__ import annotations

from collections.abc import Iterator

from josefine_broker.base.addresses import is_loopback
from josefine_broker.config.broker_config import BrokerConfig
from josefine_cli.broker.findings import Finding

WALL = "let a firewall keep it to those who need it"


def exposures(config: BrokerConfig) -> list[Finding]:
    """Warnings: a network may be safe by itself."""
    return [*_clients(config), *_raft(config), *_text(config), *_admin(config)]


def _clients(config: BrokerConfig) -> Iterator[Finding]:
    for listener in config.broker.listeners:
        if is_loopback(listener.host):
            continue
        protocol = config.protocol_of(listener.name)
        where = f"broker.listeners {listener}"
        if not protocol.is_tls:
            what = "records and passwords" if protocol.is_sasl else "records"
            told = f"{where} speaks {protocol.value}: {what} can be read on the way"
            yield Finding("warning", told, "let it speak TLS: docs/security.md")
        asks_certificates = (
            protocol.is_tls and config.tls.of(listener.name).client_auth == "required"
        )
        is_named = protocol.is_sasl or asks_certificates
        if not is_named and not config.acls.enabled:
            told = f"{where} asks nobody who they are: whoever reaches it may do everything"
            yield Finding("warning", told, "let it speak SASL_SSL, or set acls.enabled")


def _raft(config: BrokerConfig) -> Iterator[Finding]:
    listener = config.raft.listener
    if config.raft_tls.certificate is None and not is_loopback(listener.host):
        told = (
            f"raft.listener {listener} is plaintext: whoever reaches it can pretend to be a broker"
        )
        yield Finding("warning", told, "set raft_tls, or keep it to the brokers' own network")


def _text(config: BrokerConfig) -> Iterator[Finding]:
    text = config.text
    if text.port is None or is_loopback(text.host):
        return
    where = f"text.port {text.host}:{text.port}"
    if not text.tls:
        yield Finding("warning", f"{where} is plaintext", f"set text.tls, or {WALL}")
    if not config.acls.enabled and not (text.tls and config.tls.client_auth == "required"):
        told = f"{where} asks nobody who they are: whoever reaches it may do everything"
        yield Finding("warning", told, f"set acls.enabled, or {WALL}")


def _admin(config: BrokerConfig) -> Iterator[Finding]:
    admin = config.admin
    if admin.address is None or is_loopback(admin.address.host):
        return
    where = f"admin.address {admin.address}"
    if admin.tls and config.tls.client_auth == "required":
        return
    if not config.acls.enabled:
        told = f"{where} is open to whoever reaches it, without a password"
        yield Finding("warning", told, "let a firewall keep it to Prometheus and people")
    elif not admin.tls:
        told = f"{where} takes passwords in plaintext"
        yield Finding("warning", told, f"set admin.tls, or {WALL}")
