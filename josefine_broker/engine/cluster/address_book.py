"""Where the raft listeners of the other brokers are, as far as this one has heard.

Rules: what was heard last is tried first, older addresses after it, so that a stale line in a
configuration and a stale line on disk do no harm. A host keeps the book (`to_bytes`), so that a
broker finds its cluster again even when every address in its configuration is out of date.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from josefine_broker.base.addresses import HostPort, parse_host_port

BOOK_VERSION = 1
ADDRESSES_PER_NODE_MAX = 4
"""The newest few: enough for configuration, metadata, disk and the last greeting."""


class AddressBook:
    """Mutable: node id → addresses, the one heard last first."""

    def __init__(self) -> None:
        self.changes = 0
        """So often something new was learnt: who keeps the book sees when it is due."""
        self._known: dict[int, tuple[HostPort, ...]] = {}

    def take(self, data: bytes) -> None:
        """Add what was kept; it is newer than all there is. Raises ValueError for a book that
        cannot be read: what was read of it before stays."""
        try:
            plain = json.loads(data)
            if plain["version"] != BOOK_VERSION:
                raise ValueError(f"version {plain['version']}, known is {BOOK_VERSION}")
            for id_, addresses in plain["nodes"].items():
                for address in reversed(addresses):
                    self.learn(int(id_), parse_host_port(address))
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(repr(error)) from error

    def to_bytes(self) -> bytes:
        """The book to be kept: versioned JSON that people can read."""
        nodes = {str(id_): [str(each) for each in known] for id_, known in self._known.items()}
        return (json.dumps({"version": BOOK_VERSION, "nodes": nodes}, indent=2) + "\n").encode()

    def learn(self, node_id: int, address: HostPort) -> None:
        """It was heard of now."""
        known = self._known.get(node_id, ())
        if known[:1] != (address,):
            rest = tuple(each for each in known if each != address)
            self._known[node_id] = (address, *rest)[:ADDRESSES_PER_NODE_MAX]
            self.changes += 1

    def addresses(self, node_id: int) -> tuple[HostPort, ...]:
        return self._known.get(node_id, ())

    def newest(self) -> Mapping[int, HostPort]:
        """What is passed on to a broker that asks."""
        return {id_: known[0] for id_, known in self._known.items()}
