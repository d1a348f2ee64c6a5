"""The rows of `wire/apis.py` are Kafka's own, and say why where they are not.

kio is the oracle, with the versions that Kafka has and kio does not have yet.
"""

import subprocess
import sys

import pytest

from josefine_broker.base.schemas import load_request_schema, load_response_schema
from josefine_broker.wire import apis, entities
from josefine_broker.wire.apis import ApiSpec
from tests.support.kafkas_versions import kafkas_versions

ROWS = [pytest.param(spec, id=spec.name) for spec in apis.APIS.values()]


def test_no_key_has_two_rows_and_every_constant_has_one() -> None:
    constants = [value for name, value in vars(apis).items() if name.isupper() and name != "APIS"]

    keys = [value for value in constants if isinstance(value, int)]
    assert sorted(keys) == sorted(apis.APIS)
    assert [spec.key for spec in apis._ROWS] == list(apis.APIS)


@pytest.mark.parametrize("spec", ROWS)
def test_name_and_shapes_are_those_of_the_key(spec: ApiSpec) -> None:
    newest = spec.max_version

    assert load_request_schema(spec.key, newest).__name__ == f"{spec.name}Request"
    assert load_response_schema(spec.key, newest).__name__ == f"{spec.name}Response"
    assert spec.request.__name__ == f"{spec.name}Request"
    assert spec.response.__name__ == f"{spec.name}Response"


@pytest.mark.parametrize("spec", ROWS)
def test_bound_that_is_not_kafkas_has_a_reason(spec: ApiSpec) -> None:
    theirs = kafkas_versions(spec.key)

    differs = (theirs[0], theirs[-1]) != (spec.min_version, spec.max_version)
    assert differs == bool(spec.why)


@pytest.mark.parametrize("spec", ROWS)
def test_flexible_versions_are_kafkas(spec: ApiSpec) -> None:
    for version in kafkas_versions(spec.key):
        flexible = version >= spec.flexible_since
        assert load_request_schema(spec.key, version).__flexible__ is flexible
        assert load_response_schema(spec.key, version).__flexible__ is flexible


def test_shapes_are_made_when_they_are_asked_for():
    """Spark starts several Python processes for a query, and each would make all of them."""
    script = (
        "import sys, josefine_spark.source, josefine_spark.read.stream_reader\n"
        "from josefine_broker.wire import apis, entities\n"
        "begins = entities.__name__ + '.'\n"
        "def made(): return sorted(m for m in sys.modules if m.startswith(begins))\n"
        "assert not made(), made()\n"
        "apis.APIS[apis.METADATA].request(topics=None), entities.metadata\n"
        "assert made() == [begins + 'metadata'], made()\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    with pytest.raises(AttributeError, match="no attribute 'metadatas'"):
        _ = entities.metadatas
