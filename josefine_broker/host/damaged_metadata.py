"""The start of the metadata store, also where its files are damaged or missing.

Rules:
- Without damage the store opens as it is. Where no other broker is known, or this one is the only
  voter, nobody has the blocks: the start is refused and nothing changes.
- If the last promises of this broker are proved (`raft/promises.py`), the damaged directory is put
  aside under a name of its own, and an empty one with those promises takes its place. The other
  voters send the blocks; until then this broker does not lead and votes only for those that have
  them.
- If they are not proved, the broker starts as one that has no metadata and presents no cluster: the
  others refuse it while it has a vote, and print the command that takes the vote away. Its
  partition logs stay. A marker keeps it so over restarts, until a leader has let it in: its own
  chain may have a first frame before, from nothing but a peer's term.
- Each step is one rename, so a stop between any two leaves a directory that the next start
  finishes or does again. The last damaged directory is kept for a person to look at.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from josefine_broker.engine.broker import EngineConfig
from josefine_broker.host.disk.data_dir import DataDirError
from raft import (
    PROMISED_FILE,
    WAY_OUT,
    BlockFile,
    CorruptStore,
    DiskFiles,
    NodeId,
    Recovered,
    State,
    find_promises,
    write_promised,
)

DAMAGED_SUFFIX = ".damaged"
REBUILT_SUFFIX = ".rebuilt"
FORGOTTEN_FILE = "forgotten"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedMetadata:
    """The open store, and what had to be done for it."""

    store: BlockFile
    recovered: Recovered
    has_forgotten: bool = False
    """Its promises are lost: it presents no cluster, and must not vote."""
    cluster_id: str = ""
    """As the damaged files name it; empty: they were not needed, or do not."""
    lines: tuple[str, ...] = ()
    """One sentence each for the operator."""

    @property
    def needs_others(self) -> bool:
        """It gets its blocks from the other voters, and never forms a cluster."""
        return self.has_forgotten or self.recovered.promised is not None

    def report(self) -> tuple[str, ...]:
        """What was found and done, a line each."""
        return (*self.lines, f"metadata: {self.recovered.report()}")


def open_metadata(
    directory: Path, node_id: int, *, cluster_id: str, has_others: bool
) -> OpenedMetadata:
    """Open the store, or prepare its repair. `cluster_id` is in the broker's identity, empty for a
    broker that was in no cluster yet; `has_others`: other brokers are known.

    Raises CorruptStore and DataDirError where no other broker can help, OSError.
    """
    _finish(directory)
    has_forgotten = (directory / FORGOTTEN_FILE).exists()
    if cluster_id and not has_forgotten and _is_empty(directory):
        # What a broker of a cluster had promised was in there.
        if not has_others:
            raise DataDirError(_missing(directory, cluster_id))
        return _forgotten(directory, node_id, f"metadata: {directory} has no segments")
    try:
        store, recovered = _open(directory, node_id)
    except CorruptStore as error:
        return _repaired(directory, node_id, error, has_others=has_others)
    shutil.rmtree(_with(directory, REBUILT_SUFFIX), ignore_errors=True)
    lines = ("metadata: lost in an earlier run, as reported then",) if has_forgotten else ()
    return OpenedMetadata(
        store=store, recovered=recovered, has_forgotten=has_forgotten, lines=lines
    )


def after_damage(config: EngineConfig, opened: OpenedMetadata) -> EngineConfig:
    """The configuration of a broker that gets its blocks from others: it never forms a cluster, and
    names one only if it knows what it had promised there."""
    cluster_id = "" if opened.has_forgotten else config.cluster_id or opened.cluster_id
    raft = replace(config.raft, initial_voters=())
    return replace(config, raft=raft, cluster_id=cluster_id)


def let_in(directory: Path) -> None:
    """A leader has sent committed blocks: this broker is a member again, without its old vote."""
    (directory / FORGOTTEN_FILE).unlink(missing_ok=True)


def _is_empty(directory: Path) -> bool:
    return not (any(directory.glob("*.seg")) or (directory / PROMISED_FILE).exists())


def _repaired(
    directory: Path, node_id: int, damage: CorruptStore, *, has_others: bool
) -> OpenedMetadata:
    """Start without the damaged files. Raises CorruptStore where nobody else has their content."""
    files = DiskFiles(directory)
    try:
        found = find_promises(files, NodeId(node_id))
    finally:
        files.close()
    if not has_others or found.voters == {node_id}:
        raise damage
    what = f"metadata: {damage}".removesuffix(f". {WAY_OUT}")
    if found.state is None:
        return _forgotten(directory, node_id, what)
    _put_aside(directory, found.state)
    store, recovered = _open(directory, node_id)
    done = (
        f"{what}. What this broker had promised is known, so the other voters send it the blocks"
        f" again; the damaged files are in {_with(directory, DAMAGED_SUFFIX)}"
    )
    return OpenedMetadata(
        store=store, recovered=recovered, cluster_id=found.cluster_id, lines=(done,)
    )


def _forgotten(directory: Path, node_id: int, what: str) -> OpenedMetadata:
    """Start without metadata: the other brokers decide when this one may come back."""
    _put_aside(directory, None)
    store, recovered = _open(directory, node_id)
    done = (
        f"{what}. This broker may have forgotten how it voted: if it votes in its cluster, the"
        " other brokers refuse it and name the command that takes its vote away. Its partition"
        f" logs stay; the damaged files are in {_with(directory, DAMAGED_SUFFIX)}"
    )
    return OpenedMetadata(store=store, recovered=recovered, has_forgotten=True, lines=(done,))


def _open(directory: Path, node_id: int) -> tuple[BlockFile, Recovered]:
    files = DiskFiles(directory)
    try:
        return BlockFile.open(files, NodeId(node_id))
    except BaseException:
        files.close()
        raise


def _put_aside(directory: Path, promised: State | None) -> None:
    """Replace the directory by a new one: with the promises, or with the marker of lost ones."""
    fresh, damaged = _with(directory, REBUILT_SUFFIX), _with(directory, DAMAGED_SUFFIX)
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    if promised is None:
        (fresh / FORGOTTEN_FILE).touch()
        _sync(fresh)
    else:
        files = DiskFiles(fresh)
        try:
            write_promised(files, promised)
        finally:
            files.close()
    # Before the rename below, so that a new directory which is in its place has its content.
    _sync(directory.parent)
    shutil.rmtree(damaged, ignore_errors=True)
    directory.rename(damaged)
    _finish(directory)


def _finish(directory: Path) -> None:
    """The last step of a rebuild, also of one that a crash interrupted: the directory was put
    aside, and the new one, which was durable before, is not in its place yet."""
    fresh = _with(directory, REBUILT_SUFFIX)
    if not directory.exists():
        if any((fresh / name).exists() for name in (PROMISED_FILE, FORGOTTEN_FILE)):
            fresh.rename(directory)
        else:
            directory.mkdir(parents=True)
        _sync(directory.parent)


def _with(directory: Path, suffix: str) -> Path:
    return directory.with_name(directory.name + suffix)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _missing(directory: Path, cluster_id: str) -> str:
    return (
        f"data directory {directory.parent} belongs to cluster {cluster_id}, but its metadata"
        f" in {directory} is missing: restore it, or remove the whole data directory and follow"
        " 'Lose a data directory' in docs/how-to/cluster.md"
    )
