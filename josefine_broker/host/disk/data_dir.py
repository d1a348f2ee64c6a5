"""The data directory: its lock, the identity of its broker, and the addresses it listens on.

The lock is an flock on `.lock`: it ends with its process, so kill -9 leaves nothing to clean up.
`broker.json` carries a checksum of its fields (`crc32c`): a flipped bit in the broker or cluster id
must not make the data another broker's. Files of older versions have no checksum; they are read
without one, and get one at the first start.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from josefine_broker.base.errors import CorruptData
from josefine_broker.records.crc import crc32c

ADDRESSES_FILE = "broker.addresses.json"
IDENTITY_FILE = "broker.json"
IDENTITY_VERSION = 1
_IDENTITY_FIELDS: dict[str, type] = {
    "version": int,
    "broker_id": int,
    "cluster_id": str,
    "committed": bool,
}
_CHECKSUM_FIELD = "crc32c"
LOCK_FILE = ".lock"
METADATA_DIR = "raft"


class DataDirError(Exception):
    """The data directory cannot be used; the message is one sentence for the user."""


class DataDirLock:
    """The lock of the directory, held for this process until `release`."""

    def __init__(self, directory: Path) -> None:
        """Create the directory if missing and take its lock. Raises DataDirError."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise DataDirError(
                f"data directory {directory} cannot be used: {error.strerror}"
            ) from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self._fd, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(self._fd)
            raise DataDirError(
                f"data directory {directory} is in use by another broker (process {holder})"
            ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode("ascii"), 0)

    def release(self) -> None:
        os.close(self._fd)


@dataclass(frozen=True, slots=True)
class Identity:
    """The owner of the data. `cluster_id` is empty until the birth of the broker's cluster is
    committed: an uncommitted birth may be lost, and a broker that stored its id would be locked out
    for ever."""

    broker_id: int
    cluster_id: str
    damage: str = ""
    """Why the file cannot be read, one sentence; empty: it can, or there is none."""


def claim(directory: Path, broker_id: int) -> Identity:
    """The identity stored in the directory, or a new one if there is none.

    A cluster id without the mark "committed" was stored by an older version, which did not wait for
    the commit: it is ignored, and the metadata supplies it again, as it does when the file is
    damaged. Raises DataDirError when the data belongs to another broker: serving it under a wrong
    id would break every assignment that names this broker.
    """
    path = directory / IDENTITY_FILE
    try:
        plain = _read_identity(path.read_bytes())
    except FileNotFoundError:
        identity = Identity(broker_id, "")
        _write_identity(directory, identity)
        return identity
    except OSError as error:
        raise DataDirError(f"{path} cannot be read: {error.strerror}") from None
    except CorruptData as error:
        damage = f"{path} is damaged: {error}"
        if not any(path.name != "lock" for path in (directory / METADATA_DIR).glob("*")):
            raise DataDirError(f"{damage}. {_way_out(broker_id)}") from None
        # The metadata names its broker and its cluster, with checksums. `belong` writes the file
        # once they are read: until then the damaged one stays for a person to look at.
        return Identity(broker_id, "", f"{damage}; it is written again from the metadata")
    if plain["version"] != IDENTITY_VERSION:
        raise DataDirError(
            f"{path} has version {plain['version']}; this code reads version {IDENTITY_VERSION}"
        )
    owner = plain["broker_id"]
    if owner != broker_id:
        raise DataDirError(
            f"data directory {directory} belongs to broker {owner}, but broker.id is {broker_id}"
        )
    identity = Identity(owner, plain["cluster_id"] if plain.get("committed") is True else "")
    if _CHECKSUM_FIELD not in plain and plain.get("committed") is True:
        with suppress(OSError):  # a full disk must not stop a start that an older version survived
            _write_identity(directory, identity)
    return identity


def _read_identity(data: bytes) -> dict[str, Any]:
    """The fields of `broker.json`. Raises CorruptData naming the damaged field."""
    try:
        plain = json.loads(data)
    except ValueError as error:  # also of bytes that are not UTF-8
        raise CorruptData(f"it is not valid JSON ({error})") from error
    if not isinstance(plain, dict):
        raise CorruptData("it is not a JSON object")
    fields = {key: value for key, value in plain.items() if key != _CHECKSUM_FIELD}
    checksum = plain.get(_CHECKSUM_FIELD)
    if _CHECKSUM_FIELD in plain and checksum != _checksum(fields):
        raise CorruptData(f"its checksum does not match its fields ({_CHECKSUM_FIELD})")
    if fields.get("version") != IDENTITY_VERSION and isinstance(fields.get("version"), int):
        return plain  # another version: its other fields are unknown here
    # Without a checksum (an older version's file, or one whose checksum key was damaged) only the
    # fields themselves can be checked: none is missing, unknown or of another type.
    for key in ("version", "broker_id", "cluster_id"):
        if key not in fields:
            raise CorruptData(f"its field {key!r} is missing")
    for key, value in fields.items():
        expected = _IDENTITY_FIELDS.get(key)
        if expected is None:
            raise CorruptData(f"its field {key!r} is unknown")
        if type(value) is not expected:
            raise CorruptData(f"its field {key!r} is {value!r}, expected {expected.__name__}")
    return plain


def _checksum(fields: Mapping[str, object]) -> int:
    return crc32c(json.dumps(fields, sort_keys=True).encode())


def _way_out(broker_id: int) -> str:
    return (
        f"Restore the file from a copy; or, if this directory is broker {broker_id}'s, write"
        f' {{"version": {IDENTITY_VERSION}, "broker_id": {broker_id}, "cluster_id": ""}} into it:'
        " the cluster id is then taken from the metadata. Otherwise follow 'Lose a data directory'"
        " in docs/how-to/cluster.md"
    )


def belong(directory: Path, identity: Identity, cluster_id: str) -> Identity:
    """Store the cluster's id once it is committed. Raises DataDirError if it differs."""
    if identity.cluster_id == cluster_id:
        return identity
    if identity.cluster_id:
        raise DataDirError(
            f"data directory {directory} belongs to cluster {identity.cluster_id}, but its"
            f" metadata to cluster {cluster_id}"
        )
    identity = Identity(identity.broker_id, cluster_id)
    _write_identity(directory, identity)
    return identity


def _write_identity(directory: Path, identity: Identity) -> None:
    fields = {
        "version": IDENTITY_VERSION,
        "broker_id": identity.broker_id,
        "cluster_id": identity.cluster_id,
        "committed": bool(identity.cluster_id),
    }
    plain = {**fields, _CHECKSUM_FIELD: _checksum(fields)}
    temporary = directory / f"{IDENTITY_FILE}.tmp"
    with temporary.open("w", encoding="utf-8") as file:
        file.write(json.dumps(plain) + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(directory / IDENTITY_FILE)
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_addresses(directory: Path, addresses: Mapping[str, object]) -> None:
    """Publish the listeners' addresses for scripts, by an atomic replacement of the file."""
    temporary = directory / f"{ADDRESSES_FILE}.tmp"
    temporary.write_text(json.dumps(addresses, indent=2) + "\n", encoding="utf-8")
    temporary.replace(directory / ADDRESSES_FILE)


def remove_addresses(directory: Path) -> None:
    """Remove the published addresses; a missing file is fine."""
    (directory / ADDRESSES_FILE).unlink(missing_ok=True)


def new_cluster_id() -> str:
    """22 characters, the format of Kafka's own cluster ids."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")


def boot_id() -> str:
    """Changes at each start of the machine; empty where the system does not provide one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""
