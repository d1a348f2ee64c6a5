"""What the levels of `josefine.version` mean to those who write formats."""

import pytest

from josefine_broker.engine.metadata.features import JOSEFINE_VERSION, SUPPORTED, raft_format
from raft.config import FORMAT_MAX


@pytest.mark.parametrize(
    ("features", "format_"),
    [({}, 1), ({JOSEFINE_VERSION: 1}, 1), ({JOSEFINE_VERSION: 2}, 2), ({"other": 2}, 1)],
)
def test_raft_speaks_what_the_finalized_level_allows(
    features: dict[str, int], format_: int
) -> None:
    assert raft_format(features) == format_


def test_the_newest_level_allows_the_newest_format() -> None:
    known = next(each for each in SUPPORTED if each.name == JOSEFINE_VERSION)

    assert raft_format({JOSEFINE_VERSION: known.max_level}) == FORMAT_MAX
