"""The stored end of a partition is in the name of a file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_journal.store_ends import NO_ROWS, StoredEnd, stored_end

OFFSETS = st.integers(0, 2**63 - 1)


@given(st.integers(0, 2**31), OFFSETS, OFFSETS)
def test_the_name_of_a_file_has_the_end(partition: int, end: int, lost_to: int) -> None:
    path = StoredEnd(partition=partition, end=end, lost_to=lost_to).named()

    assert stored_end(path, 7) == StoredEnd(
        partition=partition, end=end, lost_to=lost_to, path=path, size=7
    )


def test_no_two_files_have_one_name_and_names_sort_as_their_ends() -> None:
    one, other = (StoredEnd(partition=0, end=n, lost_to=0).named() for n in (9, 10))

    assert one < other
    assert one != StoredEnd(partition=0, end=9, lost_to=0).named()
    assert NO_ROWS.num_rows == 0


@pytest.mark.parametrize(
    "path",
    [
        "partition=0/part-0.parquet",
        "replicated-00000000000000000009-00000000000000000000-" + "0" * 32 + ".parquet",
        "partition=0/replicated-9-0-" + "0" * 32 + ".parquet",
        "partition=0/replicated-00000000000000000009-00000000000000000000-"
        + "0" * 32
        + ".parquet2",
    ],
)
def test_a_file_with_rows_has_none(path: str) -> None:
    assert stored_end(path, 7) is None
