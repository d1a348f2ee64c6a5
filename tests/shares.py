"""The daily share of long proofs: a test with many long cases runs a few of them each day.

`@pytest.mark.long_proof(share=N)` on a test with parameters leaves one of N of its cases in the
tests of every day and marks the others `slow`, which `./build.sh test slow` runs, all of them.
Tests that name the same `among` share as if they were the cases of one. Which cases stay is drawn
by `--share-seed` (0 unless said, the day of the year in `./build.sh test`), the same in every
process and order.
"""

from collections.abc import Sequence

import pytest

__all__ = ["daily_of", "mark_the_rest_slow"]

MARKER = "long_proof"


def mark_the_rest_slow(items: Sequence[pytest.Item], seed: int) -> None:
    """Marks, of each test that is a long proof, the cases that do not belong to this share."""
    proofs: dict[str, list[pytest.Item]] = {}
    for item in items:
        marker = item.get_closest_marker(MARKER)
        # A case that is slow by itself is none of the day's, whatever is drawn.
        if marker is not None and item.get_closest_marker("slow") is None:
            among = marker.kwargs.get("among", item.nodeid.partition("[")[0])
            proofs.setdefault(among, []).append(item)
    for cases in proofs.values():
        marker = cases[0].get_closest_marker(MARKER)
        assert marker is not None
        by_id = {case.nodeid: case for case in cases}
        daily = daily_of(sorted(by_id), marker.kwargs["share"], seed)
        for nodeid, case in by_id.items():
            if nodeid not in daily:
                case.add_marker(pytest.mark.slow)


def daily_of(cases: Sequence[str], share: int, seed: int) -> frozenset[str]:
    """One of `share` of these, at least one, evenly spread; another seed gives the next ones."""
    return frozenset(cases[seed % min(share, len(cases)) :: share])
