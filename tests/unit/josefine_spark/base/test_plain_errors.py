"""Only errors of ours, in a process of Spark's, go without their traceback."""

from __future__ import annotations

import os

import pytest

from josefine_spark.base.errors import DataLossError
from josefine_spark.base.plain_errors import HIDE, without_traceback


class Reader:
    """Raises what it is given."""

    @without_traceback
    def look(self, error: Exception) -> None:
        raise error


@pytest.mark.parametrize(
    ("error", "process", "hidden"),
    [
        (DataLossError("gone"), "PYTHON_WORKER_FACTORY_SECRET", True),
        (DataLossError("gone"), "OTHER", False),
        (KeyError("a mistake of ours"), "PYTHON_WORKER_FACTORY_SECRET", False),
    ],
)
def test_a_traceback_is_hidden_where_it_tells_nothing(
    monkeypatch: pytest.MonkeyPatch, error: Exception, process: str, hidden: bool
) -> None:
    monkeypatch.setenv(HIDE, "")
    monkeypatch.setenv(process, "x")

    with pytest.raises(type(error)):
        Reader().look(error)

    assert bool(os.environ[HIDE]) is hidden
