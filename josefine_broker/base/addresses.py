"""Addresses of brokers and listeners: host and port, as values and as text."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple

_LABEL = "[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?"
"""RFC 1123's, plus underscores: name services carry them (RFC 2181, section 11), and container
names use them."""
_HOST = re.compile(rf"{_LABEL}(\.{_LABEL})*\.?")


class HostPort(NamedTuple):
    """An address to bind or to dial; port 0 means any free port when binding."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Whether the host is a loopback address. Names are not resolved."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_host_port(value: object) -> HostPort:
    """`host:port` or `[v6]:port`; the ValueError names the problem."""
    if isinstance(value, HostPort):
        return value
    if not isinstance(value, str):
        raise ValueError(f"must be host:port, got {value!r}")
    host, colon, port_text = value.rpartition(":")
    if not colon or not host:
        raise ValueError(f"must be host:port, got {value!r}")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            raise ValueError(f"{host!r} in {value!r} is not an IPv6 address") from None
    elif re.fullmatch(r"[0-9.]+", host):
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            raise ValueError(f"{host!r} in {value!r} is not an IPv4 address") from None
    elif not _HOST.fullmatch(host):
        raise ValueError(f"{host!r} in {value!r} is not a host name")
    if not re.fullmatch(r"[0-9]{1,5}", port_text) or int(port_text) > 65_535:
        raise ValueError(f"port in {value!r} must be a number from 0 to 65535")
    return HostPort(host, int(port_text))
