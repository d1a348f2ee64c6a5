"""The pauses after writes that failed."""

from josefine_broker.engine.groups.share.repeats import Repeats


def test_pauses_double_up_to_a_limit_until_a_write_ends() -> None:
    writes = Repeats(1_000, 30_000)
    found = []
    for now_ms in range(100, 108):
        writes.failed(now_ms)
        found.append(writes.retry_ms - now_ms)
    assert found == [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]
    assert (writes.since_ms, writes.tries) == (100, 8)
    writes.ended()
    writes.failed(200)
    assert (writes.since_ms, writes.tries, writes.retry_ms) == (200, 1, 1_200)
