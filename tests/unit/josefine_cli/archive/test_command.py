"""`josefine archive` names a topic without an archive; damage is an error of one sentence."""

from __future__ import annotations

from typing import Any, cast

import pytest
from deltalake.exceptions import DeltaError

from josefine_cli.archive import command
from josefine_cli.base.errors import UserError
from josefine_lake.archive.status import status
from josefine_lake.config.table_topic import TableTopic
from josefine_lake.writer import discovery


def test_a_topic_without_an_archive_is_named_with_its_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = discovery.Discovered(tables=cast(Any, {"a": object()}), wrong={"b": "no location"})
    monkeypatch.setattr(discovery, "discover", lambda client, topics, parse: there)

    assert command._found(cast(Any, None), ["a", "b"]) is there
    with pytest.raises(UserError, match=r"topic 'c' has no archive: .*josefine topics alter c"):
        command._found(cast(Any, None), ["a", "c"])


def test_an_archive_that_nobody_can_open_does_not_hide_the_others() -> None:
    table = TableTopic(topic="a", location="gs://b/a", dead_letter=None, is_archive=True)

    (found,) = status(cast(Any, None), {"a": table}, {})

    assert (found.topic, found.partitions) == ("a", ())
    assert "only folders and S3 are written" in found.stopped


def test_an_archive_that_cannot_be_read_is_one_sentence() -> None:
    with pytest.raises(UserError, match=r"archive not read: no table$"), command._archive_errors():
        raise DeltaError("no table\n   0: <unknown>")
