"""Where a writer of table topics writes."""

from __future__ import annotations

import pytest

from josefine_lake.config.table_topic import TableTopic
from josefine_lake.writer.verdicts import StoppedTable
from josefine_lake.writer.worlds import opened
from pipelines.storage.folders import Folders

AZURE = {"AZURE_STORAGE_ACCOUNT_KEY": "QUFB"}


@pytest.mark.parametrize("env", [{}, AZURE], ids=["no user", "a user"])
def test_a_store_in_which_no_writer_was_tried_stops_the_table(env):
    where = "abfss://lake@acme.dfs.core.windows.net/orders"
    table = TableTopic(topic="orders", location=where)

    with pytest.raises(StoppedTable, match="only folders and S3 are written") as stopped:
        opened(table, Folders({}, env), where)

    assert "table of topic `orders`" in str(stopped.value)


def test_folders_and_s3_are_written(tmp_path):
    for where in (str(tmp_path / "t"), "s3://lake/t"):
        env = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_REGION": "us-east-1"}
        folder = opened(TableTopic(topic="t", location=where), Folders({}, env), where)
        assert folder.path == where
