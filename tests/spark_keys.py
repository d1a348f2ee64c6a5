"""Write pipelines/spark/spark_keys.txt: every setting that the installed Spark and Delta know.

`python -m tests.spark_keys` reads the strings of their classes, without a JVM: Spark writes its
settings out in full, Delta only what comes behind `spark.databricks.delta.`, as the argument of
`buildConf`. Takes some seconds. Spark's jars are PySpark's own, Delta's the cached ones.
"""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyspark

from josefine_arrow.cache.directory import cache_dir
from josefine_spark.sessions.session import DELTA_VERSION
from pipelines.spark.settings import LIST

_KEY = re.compile(r"spark\.[A-Za-z][\w.-]*[\w]")
_DELTA_KEY = re.compile(r"[A-Za-z][\w.]*")
_DELTA = "spark.databricks.delta."
_BUILDERS = ("buildConf", "buildStaticConf")
_NOT_SETTINGS = re.compile(r"\.(?:scala|java|proto|testOnly\..*)$|^spark\.apache\.org")
_LOAD_AND_CALL = re.compile(rb"(?:\x12(.)|\x13(..))[\xb6-\xb9](..)", re.DOTALL)
"""ldc or ldc_w of a constant, then the call of a method."""

_SIZES = {
    3: 5,
    4: 5,
    9: 5,
    10: 5,
    11: 5,
    12: 5,
    15: 4,
    17: 5,
    18: 5,
    7: 3,
    8: 3,
    16: 3,
    19: 3,
    20: 3,
}
"""Tag of a constant → its bytes; 1 is a text of its own length, 5 and 6 take two places."""


def headline() -> str:
    """The first line of the list."""
    return f"# Spark {pyspark.__version__} and Delta {DELTA_VERSION}"


def main() -> None:
    """Write the list."""
    keys = set(_keys())
    LIST.write_text("\n".join([headline(), *sorted(keys)]) + "\n", encoding="utf-8")
    print(f"{LIST}: {len(keys)} settings")


def _keys() -> Iterator[str]:
    for jar in sorted((Path(pyspark.__file__).parent / "jars").glob("spark-*.jar")):
        for _, constants in _classes(jar, b"spark."):
            yield from filter(_is_setting, _texts(constants))
    delta = next(cache_dir("jars").glob(f"delta-{DELTA_VERSION}-*/delta-spark_*.jar"))
    for data, constants in _classes(delta, b"uild"):
        yield from filter(_is_setting, _texts(constants))
        for key in _built(data, constants):
            if _is_setting(_DELTA + key) and not key.startswith("spark."):
                yield _DELTA + key


def _is_setting(text: str) -> bool:
    return bool(_KEY.fullmatch(text)) and not _NOT_SETTINGS.search(text)


Constants = dict[int, tuple[int, bytes]]
"""Number of a constant → (tag, bytes)."""


def _classes(jar: Path, having: bytes) -> Iterator[tuple[bytes, Constants]]:
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            data = archive.read(name) if name.endswith(".class") else b""
            if having in data:
                yield data, _constants(data)


def _constants(data: bytes) -> Constants:
    count = struct.unpack_from(">H", data, 8)[0]
    at, number, found = 10, 1, {}
    while number < count:
        tag = data[at]
        if tag == 1:
            size = struct.unpack_from(">H", data, at + 1)[0]
            found[number] = (tag, data[at + 3 : at + 3 + size])
            at += 3 + size
        elif tag in (5, 6):
            at += 9
            number += 1
        else:
            found[number] = (tag, data[at + 1 : at + _SIZES[tag]])
            at += _SIZES[tag]
        number += 1
    return found


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _text(constants: Constants, number: int) -> str:
    tag, data = constants.get(number, (0, b""))
    return constants[_number(data)][1].decode(errors="replace") if tag == 8 else ""


def _texts(constants: Constants) -> Iterator[str]:
    for number, (tag, _) in constants.items():
        if tag == 8:
            yield _text(constants, number)


def _built(data: bytes, constants: Constants) -> Iterator[str]:
    for match in _LOAD_AND_CALL.finditer(data):
        text = _text(constants, _number(match[1] or match[2]))
        tag, method = constants.get(_number(match[3]), (0, b""))
        if not _DELTA_KEY.fullmatch(text) or tag not in (10, 11):
            continue
        name_and_type = constants[_number(method[2:4])][1]
        if constants[_number(name_and_type[:2])][1].decode() in _BUILDERS:
            yield text


if __name__ == "__main__":
    main()
