"""docs/reference/settings.md: every key of a broker's configuration, from its model."""

from collections.abc import Iterator
from typing import Any

from conf.generate import scalar, unit_of
from josefine_broker.config.broker_config import BrokerConfig
from josefine_broker.config.values import Section
from tests.pages.markdown import cell, table


def page() -> str:
    """The whole page."""
    return "\n".join(lines()) + "\n"


def lines() -> Iterator[str]:
    """A section for each section of the file."""
    yield from (
        "# Settings of a broker",
        "",
        "Every key of a broker's configuration file with its unit and default. Written by",
        "`./build.sh docs` from `josefine_broker/config/`. `conf/broker.yaml` is the same as a",
        "file; the environment overrides any key: `JOSEFINE__BROKER__ID=3` is `broker.id`.",
        "[Configuration](configuration.md) explains topics, groups and transactions.",
    )
    for name, section in BrokerConfig():
        assert isinstance(section, Section)
        yield from ("", f"## {name}", "", cell(type(section).__doc__ or ""), "")
        yield from table(("key", "default", "meaning"), rows(name, section))


def rows(name: str, section: Section) -> Iterator[tuple[str, ...]]:
    """The keys of one section."""
    values: dict[str, Any] = section.model_dump(mode="json")
    schema = type(section).model_json_schema()["properties"]
    for key, field in type(section).model_fields.items():
        unit = unit_of(schema[key])
        meaning = f"{field.description or ''}{f' Unit: {unit}.' if unit else ''}"
        yield f"`{name}.{key}`", f"`{cell(scalar(values[key]))}`", cell(meaning)
