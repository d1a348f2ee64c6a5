"""The single import of kio, the package with the schemas of Kafka's messages.

kio registers its types with Hypothesis wherever that is installed. In a development environment
every command and every broker would then load a test library: in a directory without `.hypothesis/`
that took a second and 248 MB and created the folder. So kio is loaded as if Hypothesis were not
installed; modules of Hypothesis that are loaded already stay as they are.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from josefine_broker.base import newer_schemas


@contextmanager
def _hidden(package: str) -> Iterator[None]:
    """Inside, `import package` fails as if the package were not installed."""
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
    from kio import index
    from kio.schema.errors import ErrorCode


@cache
def load_request_schema(api_key: int, api_version: int) -> type:
    """The class of a request's version, in kio's form. Raises KioIndexError if it is unknown."""
    change = newer_schemas.REQUESTS.get((api_key, api_version))
    if change is not None:
        return newer_schemas.derived(index.load_request_schema, api_key, api_version, change)
    return index.load_request_schema(api_key, api_version)


@cache
def load_response_schema(api_key: int, api_version: int) -> type:
    """The same for a response."""
    change = newer_schemas.RESPONSES.get((api_key, api_version))
    if change is not None:
        return newer_schemas.derived(index.load_response_schema, api_key, api_version, change)
    return index.load_response_schema(api_key, api_version)


__all__ = ["ErrorCode", "load_request_schema", "load_response_schema"]
