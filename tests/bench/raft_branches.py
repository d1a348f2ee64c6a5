"""What a dead branch costs: leaving it, walking back along it, collecting it.

Each cost is measured behind a short committed chain and a long one: it may grow with the branch,
and must not with what is committed. CPU time of this thread, with Python's cyclic garbage collector
off: it looks at every object there is, whatever the chain does.
"""

import gc
from collections.abc import Callable, Iterator
from statistics import median
from time import thread_time

from raft import GENESIS, BlockId, Config, NodeId
from raft.chain import Chain
from raft.ids import Height
from tests.bench.raft_store import run_of_blocks

__all__ = ["measure_branches"]

BRANCHES = (10, 1_000, 100_000)
ROUNDS_OF = {10: 9, 1_000: 9, 100_000: 5}
COLLECT_BLOCKS = Config(node_id=NodeId(1)).collect_blocks_max


def timed(work: Callable[[], object]) -> float:
    start = thread_time()
    work()
    return thread_time() - start


def collect_all(chain: Chain) -> float:
    """Remove all that is dead; the longest single step."""
    longest = 0.0
    while chain.has_dead:
        longest = max(longest, timed(lambda: chain.collect(COLLECT_BLOCKS)))
    return longest


def one_branch(chain: Chain, length: int, term: int) -> dict[str, float]:
    """Follow a branch of `length` blocks, leave it for a newer leader's block, and collect it."""
    fork = chain.commit
    branch = run_of_blocks(fork, length, term)
    chain.extend(branch)
    tip = branch[-1].id
    walk = timed(lambda: chain.is_live(tip))  # off the head path, pointer by pointer to the fork
    follow = timed(lambda: chain.move_head(tip))
    (newer,) = run_of_blocks(fork, 1, term + 1)
    chain.extend([newer])
    leave = timed(lambda: chain.move_head(newer.id))
    commit = timed(lambda: chain.advance_commit(Height(newer.id.height)))
    before = len(chain)
    longest = 0.0

    def collect() -> None:
        nonlocal longest
        longest = collect_all(chain)

    collected = timed(collect)
    assert before - len(chain) == length, (before, len(chain), length)
    return {
        "walk_back": walk,
        "follow": follow,
        "leave": leave,
        "commit": commit,
        "collect": collected,
        "longest_collect_step": longest,
    }


def committed_chain(length: int) -> Chain:
    blocks = run_of_blocks(GENESIS, length)
    last: BlockId = blocks[-1].id
    return Chain.restore(root=GENESIS, head=last, commit=last, blocks=blocks)


def measure_branches(committed: tuple[int, ...]) -> Iterator[tuple[str, float]]:
    """(measure/unit, value) for every branch behind every committed chain.

    The chains take turns, so that what else the machine does hits each alike.
    """
    chains = {behind: committed_chain(behind) for behind in committed}
    term = 2
    for length in BRANCHES:
        rounds: dict[int, list[dict[str, float]]] = {behind: [] for behind in committed}
        for _ in range(ROUNDS_OF[length]):
            for behind, chain in chains.items():
                gc.collect()
                gc.disable()
                rounds[behind].append(one_branch(chain, length, term))
                gc.enable()
            term += 2
        for behind, measured in rounds.items():
            for part in measured[0]:
                value = median(round_[part] for round_ in measured)
                yield f"branch_{length}_behind_{behind}_{part}/cpu_us", value * 1e6
