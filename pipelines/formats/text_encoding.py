"""The encoding of JSON and CSV values: UTF-8, with or without its byte order mark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from josefine_arrow.formats.byte_order_mark import REASONS, UTF_8

if TYPE_CHECKING:
    from pyspark.sql import Column

NOT_UTF_8 = "not UTF-8 text"


def without_mark(data: Column) -> Column:
    """The bytes without the byte order mark of UTF-8."""
    from pyspark.sql import functions as F  # noqa: N812

    rest = F.substr(data, F.lit(len(UTF_8) + 1))
    return F.when(F.startswith(data, F.lit(UTF_8)), rest).otherwise(data)


def why_not_utf_8(data: Column) -> Column:
    """Why bytes that are not UTF-8 are bad: the encoding that their mark names, if any."""
    from pyspark.sql import functions as F  # noqa: N812

    told = [F.when(F.startswith(data, F.lit(mark)), F.lit(why)) for mark, why in REASONS.items()]
    return F.when(~F.is_valid_utf8(data), F.coalesce(*told, F.lit(NOT_UTF_8)))
