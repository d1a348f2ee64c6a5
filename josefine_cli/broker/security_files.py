"""The check of a configuration's certificates, users and keys, read as a broker reads them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from josefine_broker.base.certificates import first_of_pem, valid_until_s
from josefine_broker.base.tls_files import TlsError
from josefine_broker.compose.security import Securing
from josefine_broker.config.broker_config import BrokerConfig
from josefine_broker.host.net.token_keys import KeysError
from josefine_broker.host.net.users import UsersError

SOON_DAYS = 14
DAY_MS = 86_400_000


def look_at_files(
    config: BrokerConfig, env: Mapping[str, str], now_ms: int
) -> tuple[str, tuple[str, ...]]:
    """(reason why a broker would not start, or "", warnings). `now_ms` is Unix time."""
    try:
        securing = Securing(config, env)
    except (TlsError, UsersError, KeysError) as error:
        return str(error), ()
    return "", (*securing.warnings(now_ms), *_soon(config, now_ms))


def _soon(config: BrokerConfig, now_ms: int) -> list[str]:
    """Warnings about certificates that expire within SOON_DAYS."""
    expiring = []
    of_listeners = {
        f"tls.by_listener.{name}.certificate": own.certificate
        for name, own in config.tls.by_listener.items()
    }
    for name, certificate in (
        ("tls.certificate", config.tls.certificate),
        *of_listeners.items(),
        ("raft_tls.certificate", config.raft_tls.certificate),
    ):
        if certificate is None:
            continue
        until_ms = 1_000 * valid_until_s(first_of_pem(certificate.read_text("ascii", "replace")))
        if now_ms <= until_ms < now_ms + SOON_DAYS * DAY_MS:
            day = datetime.fromtimestamp(until_ms / 1_000, UTC).date()
            expiring.append(f"{name} {certificate} expires on {day}")
    return expiring
