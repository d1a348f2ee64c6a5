"""Where the raft listeners of the other brokers are, as far as this one has heard.

Rules: what was heard last is tried first, older addresses after it, so that a stale line in a
configuration and a stale line on disk do no harm. The book is kept in the data directory, so that a
broker finds its cluster again even when every address in its configuration is out of date.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path

from josefine_broker.config_values import HostPort, parse_host_port

log = logging.getLogger(__name__)

BOOK_FILE = "raft.peers.json"
BOOK_VERSION = 1
ADDRESSES_PER_NODE_MAX = 4
"""The newest few: enough for configuration, metadata, disk and the last greeting."""


class AddressBook:
    """Mutable: node id → addresses, the one heard last first."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[int, tuple[HostPort, ...]] = {}
        self._stored: dict[int, tuple[HostPort, ...]] = {}

    def load(self) -> None:
        """Add what was stored. A book that cannot be read is told and ignored."""
        if self._path is None or not self._path.exists():
            return
        try:
            plain = json.loads(self._path.read_text(encoding="utf-8"))
            if plain["version"] != BOOK_VERSION:
                raise ValueError(f"version {plain['version']}, known is {BOOK_VERSION}")
            for id_, addresses in plain["nodes"].items():
                for address in reversed(addresses):
                    self.learn(int(id_), parse_host_port(address))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("address book ignored", extra={"path": self._path, "reason": error})
        self._stored = dict(self._known)

    def store(self) -> None:
        """Write it if it changed. Raises OSError."""
        if self._path is None or self._stored == self._known:
            return
        nodes = {str(id_): [str(each) for each in known] for id_, known in self._known.items()}
        temporary = self._path.with_name(self._path.name + ".tmp")
        text = json.dumps({"version": BOOK_VERSION, "nodes": nodes}, indent=2)
        temporary.write_text(text + "\n", encoding="utf-8")
        temporary.replace(self._path)
        self._stored = dict(self._known)

    def learn(self, node_id: int, address: HostPort) -> None:
        known = self._known.get(node_id, ())
        if known[:1] != (address,):
            rest = tuple(each for each in known if each != address)
            self._known[node_id] = (address, *rest)[:ADDRESSES_PER_NODE_MAX]

    def addresses(self, node_id: int) -> tuple[HostPort, ...]:
        return self._known.get(node_id, ())

    def newest(self) -> Mapping[int, HostPort]:
        """What is passed on to a broker that asks."""
        return {id_: known[0] for id_, known in self._known.items()}
