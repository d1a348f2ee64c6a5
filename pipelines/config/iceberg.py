"""Reader of the keywords of a sink with `type: iceberg`: its table and its catalog.

Like every reader, it records problems and continues with harmless values.
"""

from __future__ import annotations

import re

from pipelines.config.loader import Scalar
from pipelines.config.output_paths import local_folder
from pipelines.config.section import Reader
from pipelines.model.pipeline import Sink
from pipelines.model.schema_evolution import Evolution

TABLE, URI, WAREHOUSE, CREDENTIAL = "table", "uri", "warehouse", "credential"
"""Names in `Sink.settings`; the last three are PyIceberg's own."""

_NAME = re.compile(r"\w+(\.\w+)+")
_REST = re.compile(r"https?://[^\s/]+.*")
_ONLY_APPEND = "Spark writes files that PyIceberg adds to the table: rows only come"
_NO_WIDER = "columns of an Iceberg sink do not change their type: expected none or add"


def iceberg_sink(name: str, reader: Reader, mode: str | None, source: str) -> Sink:
    """The Iceberg sink of a section. `source`: its input."""
    if not reader.has("mode"):
        reader.missing("mode")
    elif mode not in (None, "append"):
        message = f"{_ONLY_APPEND}: expected append; found `{mode}`, for which there is type delta"
        reader.wrong_at("mode", message)
    evolution = Evolution(reader.choice("schema_evolution") or "none")
    if evolution is Evolution.WIDEN:
        reader.wrong_at("schema_evolution", _NO_WIDER)
    table = reader.text("table", required=True)
    if table and not _NAME.fullmatch(table):
        message = f"expected a namespace and a name, such as shop.orders; found `{table}`"
        reader.wrong_at("table", message)
    return Sink(
        name=name,
        place=reader.table.place,
        input=source,
        type="iceberg",
        path=None,
        table=None,
        keys=(),
        aggregates=(),
        evolution=evolution,
        settings={TABLE: table or "", **_catalog(reader)},
    )


def _catalog(sink: Reader) -> dict[str, str]:
    reader = sink.section_of("catalog")
    if reader is None:
        if not sink.has("catalog"):
            sink.missing("catalog")
        return {}
    uri = reader.text("uri")
    warehouse = (reader.text if reader.has("uri") else reader.folder)("warehouse")
    credential = reader.text("credential")
    if reader.has("uri"):
        if uri and not _REST.fullmatch(uri):
            message = f"expected the http or https address of a REST catalog; found `{uri}`"
            reader.wrong_at("uri", message)
    else:
        _judge_embedded(reader, warehouse)
    _judge_credential(reader)
    said = {URI: uri, WAREHOUSE: warehouse, CREDENTIAL: credential}
    return {key: text for key, text in said.items() if text}


def _judge_embedded(reader: Reader, warehouse: str | None) -> None:
    if not reader.has("warehouse"):
        reader.missing("warehouse")
    elif warehouse and local_folder(warehouse) is None:
        message = "the catalog without a `uri` is a file of this machine: expected a folder on it"
        reader.wrong_at("warehouse", f"{message}, or a `uri`")
    if reader.has("credential"):
        reader.wrong_at("credential", "the catalog without a `uri` asks for none")


def _judge_credential(reader: Reader) -> None:
    node = reader.table.nodes.get("credential")
    if isinstance(node, Scalar) and node.value is not None and not node.is_secret:
        message = "a credential must not be in this file: expected ${secret:env:NAME} or "
        reader.wrong_at("credential", f"{message}${{secret:file:/path}}")
