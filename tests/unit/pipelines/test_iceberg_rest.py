"""An Iceberg sink whose catalog is reached over REST."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipelines.base.errors import SetupError
from pipelines.model.pipeline import Sink
from pipelines.sinks.iceberg.catalog import TablePlace
from tests.support.iceberg_rest import CREDENTIAL, RestCatalogServer
from tests.unit.pipelines.iceberg_lab import IcebergLab, batch_of, end_of


@dataclass
class RestLab(IcebergLab):
    """The same table in the server's catalog."""

    uri: str = ""
    credential: str = CREDENTIAL

    @property
    def sink(self) -> Sink:
        from dataclasses import replace

        settings = {"table": "shop.orders", "uri": self.uri, "credential": self.credential}
        return replace(super().sink, settings=settings)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestCatalogServer]:
    with RestCatalogServer(tmp_path) as running:
        yield running


def test_rows_and_offsets_are_in_one_commit_of_a_rest_catalog(server, tmp_path):
    lab = RestLab(tmp_path, uri=server.uri)
    batch_of(lab.loaded("r1"), 0, 3)
    after = lab.loaded("r2")
    other = lab.table()
    attempt = after._attempt

    def raced(*arguments) -> None:
        if len(lab.pauses) == 0:
            other.refresh().append(other.scan().to_arrow().slice(0, 1))
        attempt(*arguments)

    after._attempt = raced  # type: ignore[method-assign]
    batch_of(after, 3, 5)

    assert (end_of(lab.chain("r3")), lab.numbers()) == ((2, 5), [0, 0, 1, 2, 3, 4])
    assert len(lab.pauses) == 1


def test_an_answer_that_a_gateway_loses_is_no_second_commit(server, tmp_path):
    lab = RestLab(tmp_path, uri=server.uri)
    chain = lab.loaded("r1")
    server.answers_to_lose = 1

    batch_of(chain, 0, 3)

    assert (end_of(lab.chain("r2")), lab.numbers()) == ((1, 3), [0, 1, 2])


def test_a_credential_that_the_catalog_refuses_is_one_sentence_without_it(server, tmp_path):
    lab = RestLab(tmp_path, uri=server.uri, credential="client:wrong")

    with pytest.raises(SetupError, match="does not answer") as caught:
        TablePlace(lab.sink).find()
    assert "wrong" not in str(caught.value)
