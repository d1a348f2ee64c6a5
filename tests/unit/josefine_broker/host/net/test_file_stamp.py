"""Changed content has another stamp."""

import os

from josefine_broker.host.net.file_stamp import look_at


def test_a_file_that_is_written_or_replaced_has_another_stamp(tmp_path) -> None:
    file, other = tmp_path / "a", tmp_path / "b"
    assert look_at(file) is None
    file.write_text("one")
    os.utime(file, ns=(1, 1))
    first = look_at(file)

    file.write_text("three")
    os.utime(file, ns=(1, 1))
    longer = look_at(file)
    other.write_text("three")
    os.utime(other, ns=(1, 1))
    other.rename(file)

    assert first is not None
    assert len({first, longer, look_at(file)}) == 3
