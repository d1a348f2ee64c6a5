"""The one door to kio, the package that holds the schemas of Kafka's messages.

kio registers its types with Hypothesis wherever that is installed. In a development environment
every command and every broker then loads a test library: in a directory without `.hypothesis/`
that took a second, 248 MB and wrote the folder there. So kio is loaded as if there were none;
what the process has loaded of Hypothesis itself stays as it is.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def _hidden(package: str) -> Iterator[None]:
    """`import package` fails inside, as where it is not installed."""
    ours = {name: each for name, each in sys.modules.items() if _is_part_of(name, package)}
    for name in ours:
        del sys.modules[name]
    sys.modules[package] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[package]
        sys.modules.update(ours)


def _is_part_of(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


with _hidden("hypothesis"):
    from kio.index import load_request_schema, load_response_schema
    from kio.schema.errors import ErrorCode

__all__ = ["ErrorCode", "load_request_schema", "load_response_schema"]
