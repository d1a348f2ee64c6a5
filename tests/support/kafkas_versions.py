"""The keys and versions of Kafka's messages: those that kio has, and the newer ones."""

from kio.schema.index import api_key_map, schema_name_map

from josefine_broker.base import newer_schemas

KEYS = sorted({*api_key_map, *(key for key, _ in newer_schemas.REQUESTS)})


def kafkas_versions(key: int) -> list[int]:
    """The versions of one API that Kafka has today."""
    older = schema_name_map[api_key_map[key]] if key in api_key_map else ()
    return sorted([*older, *(version for each, version in newer_schemas.REQUESTS if each == key)])
