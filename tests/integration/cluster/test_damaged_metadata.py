"""One damaged metadata file of one voter of three, found at a start after kill -9: what the broker
does by itself, and where it prints a command for a person."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from raft import BlockFile, DiskFiles, NodeId
from tests.support.broker import BrokerProcess
from tests.support.cli import josefine
from tests.support.cluster import REPLICATED, Cluster
from tests.support.waiting import wait_until

VICTIM = 3
RECORDS = 20

Damage = Callable[[Path, bytes], None]
"""Gets a file and the content that it had some time before."""


def flip_first(path: Path, _old: bytes) -> None:
    _flip(path, 40)


def flip_middle(path: Path, _old: bytes) -> None:
    _flip(path, path.stat().st_size // 2)


def _flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[min(position, len(data) - 1)] ^= 1
    path.write_bytes(data)


def shorten(path: Path, _old: bytes) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path, _old: bytes) -> None:
    path.write_bytes(b"")


def delete(path: Path, _old: bytes) -> None:
    path.unlink()


def put_back(path: Path, old: bytes) -> None:
    path.write_bytes(old)


UNNOTICED = "unnoticed"
"""The file is a hint: the broker starts as if nothing had happened."""
BY_ITSELF = "by itself"
"""The broker reports the damage, is rebuilt from the others and serves."""
BY_COMMAND = "by command"
"""The broker ends with a command; after it, the broker is rebuilt from the others."""

CASES: list[tuple[str, Damage, str]] = [
    ("raft/*.seg", flip_first, BY_ITSELF),
    ("raft/*.seg", flip_middle, BY_ITSELF),
    ("raft/*.seg", shorten, BY_COMMAND),
    ("raft/*.seg", empty, BY_COMMAND),
    ("raft/*.seg", delete, BY_COMMAND),
    ("raft/*.seg", put_back, BY_COMMAND),
    ("raft/*.snap", flip_middle, BY_ITSELF),
    ("raft/*.snap", shorten, BY_ITSELF),
    ("raft/*.snap", empty, BY_ITSELF),
    ("raft/*.snap", delete, BY_ITSELF),
    ("raft/synced.mark", flip_middle, UNNOTICED),
    ("raft/synced.mark", empty, UNNOTICED),
    ("raft/synced.mark", delete, UNNOTICED),
    ("raft/synced.mark", put_back, UNNOTICED),
    ("broker.json", flip_middle, BY_ITSELF),
    ("broker.json", shorten, BY_ITSELF),
    ("broker.json", empty, BY_ITSELF),
    ("broker.json", delete, UNNOTICED),
    ("broker.json", put_back, UNNOTICED),
    ("raft.peers.json", flip_first, UNNOTICED),
    ("raft.peers.json", delete, UNNOTICED),
]


class Scene:
    """A cluster, and what the victim's files were when it had just started."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.number = 0
        self.old = self.first = self.contents()

    @property
    def victim(self) -> BrokerProcess:
        return self.cluster.broker(VICTIM)

    def contents(self) -> dict[str, bytes]:
        root = self.victim.data_dir
        paths = [*root.glob("raft/*"), *root.glob("*.json")]
        return {str(path.relative_to(root)): path.read_bytes() for path in paths if path.is_file()}

    def change_metadata(self) -> None:
        """Make topics, so that chain and snapshot go on from what was kept of them."""
        self.number += 1
        with BlockingClient(self.cluster.broker(1).bootstrap) as client:
            client.create_topics(
                [
                    NewTopic(f"topic-{self.number}-{each}", partitions=1, replication_factor=1)
                    for each in range(3)
                ]
            )


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    overrides = {**REPLICATED, "raft__snapshot_blocks": 10}
    with Cluster(tmp_path_factory.mktemp("metadata"), **overrides) as cluster:
        cluster.wait_settled()
        with BlockingClient(cluster.bootstrap) as client:
            client.create_topics([NewTopic("kept", partitions=1, replication_factor=3)])
        josefine(cluster.bootstrap, "produce", "kept", stdin="\n".join(map(str, range(RECORDS))))
        scene = Scene(cluster)
        for _ in range(3):  # blocks enough for a snapshot
            scene.change_metadata()
        yield scene


@pytest.mark.long_proof(share=4)
@pytest.mark.parametrize(
    ("pattern", "damage", "outcome"),
    CASES,
    ids=[f"{pattern}-{damage.__name__}" for pattern, damage, _ in CASES],
)
def test_voter_with_one_damaged_metadata_file_is_whole_again(
    scene: Scene, pattern: str, damage: Damage, outcome: str
) -> None:
    cluster, victim = scene.cluster, scene.victim
    scene.change_metadata()
    cluster.wait_settled()
    before = {id_: cluster.view(id_)["image"]["height"] for id_ in (1, 2)}
    cluster.kill(VICTIM)
    while pattern == "raft/*.snap" and not _needs_newest_snapshot(victim.data_dir / "raft"):
        cluster.spawn(VICTIM)
        scene.change_metadata()
        cluster.wait_settled()
        cluster.kill(VICTIM)
    path = max(victim.data_dir.glob(pattern), default=victim.data_dir / pattern)
    name = str(path.relative_to(victim.data_dir))
    if not path.exists():  # the address book is written when an address changes
        path.write_bytes(scene.first.get(name, b"{}"))
    damage(path, scene.old.get(name, b""))
    said = len(victim.output)

    cluster.spawn(VICTIM)
    if outcome is BY_COMMAND:
        wait_until(lambda: not victim.alive, 60, "the end of a broker that may have voted")
        printed = re.search(r"'josefine (cluster remove 3 --data-lost[^']*)'", victim.output[said:])
        assert printed, victim.output[said:]
        assert "Its partition logs stay" in victim.output[said:]
        done = josefine("", *shlex.split(printed[1]))
        assert done.code == 0, done.err
        cluster.spawn(VICTIM)
    cluster.wait_serving(VICTIM)

    views = cluster.wait_settled()
    assert all(view["image"]["height"] > min(before.values()) for view in views)
    wait_until(lambda: _voters(cluster) == {1, 2, 3}, 60, "the vote of broker 3")
    output = victim.output[said:]
    assert "Traceback" not in output
    is_reported = "raft.damaged" in output or "broker.json is damaged" in output
    assert is_reported == (outcome is not UNNOTICED)
    read = josefine(cluster.bootstrap, "consume", "kept", "--max", str(RECORDS))
    assert read.out.split() == list(map(str, range(RECORDS))), read.err
    scene.old = scene.contents()


def _needs_newest_snapshot(directory: Path) -> bool:
    """Not if the process died after it had written a snapshot and before the block file refers to
    it: nobody would miss that one."""
    with TemporaryDirectory() as copy:
        for path in directory.iterdir():
            if path.is_file():
                shutil.copy(path, copy)
        store, found = BlockFile.open(DiskFiles(Path(copy)), NodeId(VICTIM))
        store.close()
    last = None if found.snapshot is None else found.snapshot.last
    newest = max((path.name for path in directory.glob("*.snap")), default="")
    return last is not None and newest == f"{last.term:016x}-{last.height:016x}.snap"


def _voters(cluster: Cluster) -> set[int]:
    return {each["id"] for each in cluster.view(1).get("raft", {}).get("voters", ())}


def test_two_damaged_voters_of_three_are_rebuilt_by_the_third(scene: Scene) -> None:
    """They vote for it, for it has what they had acknowledged, and then get the blocks."""
    cluster = scene.cluster
    scene.change_metadata()
    cluster.wait_settled()
    for id_ in (2, 3):
        cluster.kill(id_)
        flip_first(max(cluster.broker(id_).data_dir.glob("raft/*.seg")), b"")

    cluster.spawn(2, 3)
    cluster.wait_serving(2, 3)

    cluster.wait_settled()
    assert _voters(cluster) == {1, 2, 3}
    for id_ in (2, 3):
        assert "What this broker had promised is known" in cluster.broker(id_).output
    scene.old = scene.contents()
