"""Proposals per second and their latency with 1, 3 and 5 nodes in one process: the library alone.

Closed loop: as many proposals as the window says are outstanding at the leader; each one that ends
is replaced. Latency is from `propose` to the Ready that tells the outcome, with the block applied.
"""

from collections.abc import Iterator
from random import Random
from time import perf_counter, process_time

from raft import Message, Outcome, Result
from raft.codec import decode, encode
from tests.bench.raft_group import Group

__all__ = ["measure_commits", "percentile"]

PAYLOAD = b"x" * 100
WARM_UP_SHARE = 10
CASES = (
    # nodes, outstanding, through the codec
    (1, 1, False),
    (1, 1000, False),
    (3, 1, False),
    (3, 100, False),
    (3, 1000, False),
    (3, 1000, True),
    (5, 1, False),
    (5, 1000, False),
)


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def _as_it_is(message: Message) -> Message:
    return message


def _through_codec(message: Message) -> Message:
    return decode(encode(message))


def run(
    nodes: int, outstanding: int, *, codec: bool, proposals: int
) -> tuple[float, float, list[float]]:
    """(proposals per second, CPU seconds per proposal, latencies in seconds)."""
    begun: dict[int, float] = {}
    latencies: list[float] = []

    def on_outcome(outcome: Outcome) -> None:
        assert outcome.result is Result.COMMITTED, outcome
        latencies.append(perf_counter() - begun.pop(outcome.number))

    through = _through_codec if codec else _as_it_is
    group = Group(nodes, rng=Random(1), on_outcome=on_outcome, through=through)
    leader = group.elect()

    def load(count: int) -> None:
        end = len(latencies) + count
        while len(latencies) < end:
            for _ in range(outstanding - len(begun)):
                at = perf_counter()
                number = leader.propose(PAYLOAD, group.now_ms, group.now_ms + 60_000).number
                begun[number] = at
            group.pump()

    load(proposals // WARM_UP_SHARE)
    latencies.clear()
    start, cpu = perf_counter(), process_time()
    load(proposals)
    seconds, cpu = perf_counter() - start, process_time() - cpu
    return len(latencies) / seconds, cpu / len(latencies), latencies


def measure_commits(proposals: int) -> Iterator[tuple[str, float]]:
    """(measure/unit, value) of every case."""
    for nodes, outstanding, codec in CASES:
        count = proposals if outstanding > 1 else proposals // 10
        rate, cpu, latencies = run(nodes, outstanding, codec=codec, proposals=count)
        suffix = "_with_codec" if codec else ""
        name = f"commit_{nodes}_nodes_{outstanding}_outstanding{suffix}"
        yield f"{name}/proposals_per_s", rate
        yield f"{name}/cpu_us_per_proposal", cpu * 1e6
        yield f"{name}/p50_us", percentile(latencies, 0.5) * 1e6
        yield f"{name}/p99_us", percentile(latencies, 0.99) * 1e6
