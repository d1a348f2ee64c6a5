"""The files of a broker by kind, and what damage or loss of one may cause: that and nothing more.

| file | a bit or a sector is wrong | it is gone |
|---|---|---|
| `*.log`, the newest | that replica is shortened, or refused | – (see directory) |
| `*.log`, sealed | – (below) | – |
| directory of a partition | – | that replica is missing |
| `*.index`, `*.timeindex` | nothing: read from the log again | nothing |
| `*.sums` (what the cleaner wrote) | nothing: a witness less | nothing |
| `leader-epochs.checkpoint` | nothing: read from the batches again | nothing |
| `*.snapshot` (producers) | nothing: an older one, and more batches | nothing |
| `synced.checkpoint` | that replica is refused: an older entry may say more | nothing |
| `log-start.checkpoint` | that replica is refused | that replica, and deleted records are back |
| `completeness.checkpoint` | that replica is shortened | – (the only trace of a cut) |
| `power-lost.checkpoint` | a hole that nobody can fill waits for a person | the same |
| `partition.json` | that replica is refused | that replica is refused or missing |
| `high-watermarks.checkpoint` | logs never written to count as missing | the same |
| `clean-shutdown.marker`, `running.marker`, `starting.marker` | as a loss of power | the same |
| the chain: `*.seg`, `*.snap` | the process does not start | it does not start |
| the chain: `synced.mark` | nothing: a witness less | nothing |

*Nothing* is meant: it may befall any number of replicas at once, and costs time. What a replica may
lose by itself its partition bears as long as enough others have it, see `View.may_be_damaged`.

Left out, and why. A sealed segment is not read at a start: who reads it finds the damage by its
checksum, and a person removes the replica. Of the chain's last segment only what a mark proves to
have been synced is damaged: the rest looks like a write that a loss of power interrupted. What
`host/disk/data_dir.py` reads (`broker.json`, the addresses) is none of these files: damaged,
it stops the start. A flip in the leader epoch of a batch, which no checksum covers, where neither
the order of epochs nor their checkpoint shows it: see `epoch_flips.py`.
"""

from dataclasses import dataclass
from enum import Enum

__all__ = ["KINDS", "FileKind", "Harm", "kind_of"]


class Harm(Enum):
    """The most that damage may cause."""

    NOTHING = "nothing"  # what it said is found again elsewhere
    POWER = "power"  # the broker is judged as after a loss of power
    UNWRITTEN = "unwritten"  # its logs that have no directory count as missing
    REPLICA = "replica"  # that one log is refused or in doubt until it is copied again


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKind:
    """See the module."""

    name: str
    endings: tuple[str, ...]
    """Of the file's name; all of it for files that there is one of."""
    damaged: Harm
    lost: Harm | None = None
    """None: a single file of it is not lost in these worlds."""


KINDS = (
    FileKind(name="index", endings=(".index", ".timeindex", ".sums"), damaged=Harm.NOTHING,
             lost=Harm.NOTHING),
    FileKind(name="leader epochs", endings=("leader-epochs.checkpoint",), damaged=Harm.NOTHING,
             lost=Harm.NOTHING),
    FileKind(name="producer snapshot", endings=(".snapshot",), damaged=Harm.NOTHING,
             lost=Harm.NOTHING),
    FileKind(name="synced mark", endings=("synced.checkpoint",), damaged=Harm.REPLICA,
             lost=Harm.NOTHING),
    FileKind(name="log start", endings=("log-start.checkpoint",), damaged=Harm.REPLICA,
             lost=Harm.REPLICA),
    FileKind(name="completeness note", endings=("completeness.checkpoint",), damaged=Harm.REPLICA),
    FileKind(name="identity", endings=("partition.json", "partition.new.json"),
             damaged=Harm.REPLICA, lost=Harm.REPLICA),
    FileKind(name="high watermarks", endings=("high-watermarks.checkpoint",),
             damaged=Harm.UNWRITTEN, lost=Harm.UNWRITTEN),
    FileKind(name="marker",
             endings=("clean-shutdown.marker", "running.marker", "starting.marker"),
             damaged=Harm.POWER, lost=Harm.POWER),
)  # fmt: skip
"""Of the log disk, but for the logs themselves."""


def kind_of(path: str) -> FileKind | None:
    """None: a log, or a file that is on its way to its name."""
    return next((kind for kind in KINDS if path.endswith(kind.endings)), None)
