"""What the demo's end reads of its tables."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import fs, write_deltalake

from josefine_cli.dev import demo_check


def test_no_file_of_python_is_left_to_arrows_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that lets go of one at the interpreter's end aborts the process: 41 of 300 did."""

    def opened(*_: object) -> None:
        raise AssertionError("a file was opened by Python")

    monkeypatch.setattr(fs.DeltaStorageHandler, "open_input_file", opened)
    write_deltalake(tmp_path / "t", pa.table({"a": [1, 2, 3]}))

    assert demo_check._read(tmp_path / "t").num_rows == 3
    assert demo_check._read(tmp_path / "none") is None
