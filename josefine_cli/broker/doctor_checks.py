"""The checks of a machine for a broker's configuration: facts in, findings out. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

from josefine_broker.base.addresses import is_loopback
from josefine_broker.config.broker_config import BrokerConfig
from josefine_broker.engine.limits.descriptors import divide
from josefine_cli.broker.doctor_exposure import exposures
from josefine_cli.broker.findings import Finding

PYTHON_MIN = (3, 11)
SLOW_SYNC_MS = 50.0
NETWORK_FILE_SYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts about this machine, as far as they could be determined."""

    python: tuple[int, int]
    optimized: bool
    descriptors: int
    """Hard limit of open files."""
    data_dir_trouble: str
    """Why broker.data_dir cannot be written; empty: it can."""
    free_bytes: int
    file_system: str
    sync_ms: float | None
    """Duration of the sync of a small file there."""
    taken: tuple[str, ...]
    """Addresses of the configuration that cannot be listened on, each with the reason."""
    files_trouble: str = ""
    """Why the files of TLS, of users or of keys cannot be used; empty: they can."""
    files_warnings: tuple[str, ...] = ()
    """Warnings about certificates that have expired or soon will."""


def diagnose(facts: Facts, config: BrokerConfig) -> list[Finding]:
    """The findings, in the order in which a starting broker would meet them."""
    return [
        _python(facts),
        _descriptors(facts, config),
        *_disk(facts, config),
        *_addresses(facts, config),
        *_cluster(config),
        *_files(facts),
        *exposures(config),
    ]


def _files(facts: Facts) -> list[Finding]:
    found = [Finding("warning", each, "renew it") for each in facts.files_warnings]
    if facts.files_trouble:
        found.append(Finding("error", facts.files_trouble, "a broker does not start with it"))
    return found


def _python(facts: Facts) -> Finding:
    what = "Python {}.{}".format(*facts.python)
    if facts.python < PYTHON_MIN:
        return Finding("error", what, "install Python 3.11 or newer")
    if facts.optimized:
        return Finding("error", f"{what} with -O", "unset PYTHONOPTIMIZE: assertions guard data")
    return Finding("ok", what)


def _descriptors(facts: Facts, config: BrokerConfig) -> Finding:
    try:
        shares = divide(facts.descriptors, config.network.connections_max)
    except ValueError as error:
        return Finding("error", str(error), "raise ulimit -n, or LimitNOFILE of the service")
    if shares.shortage:
        return Finding("warning", shares.shortage, "raise ulimit -n, or LimitNOFILE")
    return Finding("ok", f"{facts.descriptors} open files")


def _disk(facts: Facts, config: BrokerConfig) -> list[Finding]:
    where = f"broker.data_dir {config.broker.data_dir}"
    if facts.data_dir_trouble:
        fix = "let the broker's user write there, or choose another directory"
        return [Finding("error", f"{where}: {facts.data_dir_trouble}", fix)]
    found = []
    needed = config.broker.disk_free_bytes_min
    if facts.free_bytes < needed:
        what = f"{where}: {facts.free_bytes} bytes free, disk_free_bytes_min is {needed}"
        found.append(Finding("error", what, "free space, or lower broker.disk_free_bytes_min"))
    else:
        found.append(Finding("ok", f"{where}: {facts.free_bytes} bytes free"))
    if facts.file_system in NETWORK_FILE_SYSTEMS:
        what = f"{where} is on {facts.file_system}"
        found.append(Finding("warning", what, "use a local disk: a lock there may not hold"))
    if facts.sync_ms is not None and facts.sync_ms > SLOW_SYNC_MS:
        what = f"{where}: a sync takes {facts.sync_ms:.0f} ms"
        found.append(Finding("warning", what, "every change of metadata waits for two of them"))
    return found


def _addresses(facts: Facts, config: BrokerConfig) -> list[Finding]:
    if not facts.taken:
        return [Finding("ok", "every address of the configuration can be listened on")]
    fix = "stop the process that has it, or choose another port; a running broker has its own"
    return [Finding("error", each, fix) for each in facts.taken]


def _cluster(config: BrokerConfig) -> list[Finding]:
    voters = config.raft.voters
    found = []
    if len(voters) > 1 and len(voters) % 2 == 0:
        what = f"raft.voters names {len(voters)} brokers"
        found.append(Finding("warning", what, "an odd number survives as many losses with less"))
    is_alone = len(voters) <= 1 and not config.raft.seeds
    if not is_alone and is_loopback(config.raft.listener.host):
        what = f"raft.listener {config.raft.listener} is reached from this machine alone"
        found.append(Finding("warning", what, "name an address that the other brokers reach"))
    if not is_alone and config.topic_defaults.replication_factor == 1:
        fix = "set topic_defaults.replication_factor to 3 and min_insync_replicas to 2"
        found.append(Finding("warning", "new topics have one replica in a cluster", fix))
    return found
