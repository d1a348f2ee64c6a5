"""The address book: the raft listeners of the other brokers, as far as known here.

Rules: the most recent address is tried first, older ones after it, so that outdated addresses in a
configuration or on disk do no harm. The host stores the book (`to_bytes`), so that a broker finds
its cluster again even if every address in its configuration is out of date.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from josefine_broker.base.addresses import HostPort, parse_host_port

BOOK_VERSION = 1
ADDRESSES_PER_NODE_MAX = 4
"""The most recent ones: enough for configuration, metadata, disk and the last greeting."""


class AddressBook:
    """Node id → addresses, the most recent first. Mutable."""

    def __init__(self) -> None:
        self.changes = 0
        """Number of changes so far, by which the host sees that the book must be stored."""
        self._known: dict[int, tuple[HostPort, ...]] = {}

    def take(self, data: bytes) -> None:
        """Add a stored book, as the most recent addresses. Raises ValueError for one that cannot be
        read; what was read before that stays."""
        try:
            plain = json.loads(data)
            if plain["version"] != BOOK_VERSION:
                raise ValueError(f"version {plain['version']}, expected {BOOK_VERSION}")
            for id_, addresses in plain["nodes"].items():
                for address in reversed(addresses):
                    self.learn(int(id_), parse_host_port(address))
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(repr(error)) from error

    def to_bytes(self) -> bytes:
        """The book as versioned JSON that people can read."""
        nodes = {str(id_): [str(each) for each in known] for id_, known in self._known.items()}
        return (json.dumps({"version": BOOK_VERSION, "nodes": nodes}, indent=2) + "\n").encode()

    def learn(self, node_id: int, address: HostPort) -> None:
        """Note an address as the node's most recent one."""
        known = self._known.get(node_id, ())
        if known[:1] != (address,):
            rest = tuple(each for each in known if each != address)
            self._known[node_id] = (address, *rest)[:ADDRESSES_PER_NODE_MAX]
            self.changes += 1

    def addresses(self, node_id: int) -> tuple[HostPort, ...]:
        return self._known.get(node_id, ())

    def newest(self) -> Mapping[int, HostPort]:
        """The most recent address of each node, which DISCOVER returns."""
        return {id_: known[0] for id_, known in self._known.items()}
