"""Client of Confluent's Schema Registry: schemas by id, each requested once per process.

A registry assigns an id before a record can use it, and an id's schema never changes. So a record
with an id that the registry does not know, after a second request, is bad. A registry that does not
answer, or refuses this user, stops the batch, because a later attempt would find the same records
good. No I/O: schema_registry_http.py sends the requests.

A schema may refer to those of other subjects (schema_references.py). They are requested for Avro,
and for JSON Schema if its title may be there (json_schema_title.py): JSON is read by the columns of
the file, so nothing else of its schema is used. Of Protobuf, the file has all descriptors, unless a
command asks for the imports.

Source: `GET /schemas/ids/{id}`, `GET /schemas/ids/{id}/versions`,
`GET /subjects/{subject}/versions/{version}` (a number or `latest`) of the Schema Registry API.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, unquote, urlsplit

from josefine_arrow.formats.confluent.json_schema_title import needs_references
from josefine_arrow.formats.confluent.schema_references import (
    NoSchemaError,
    Reference,
    Registered,
    Schema,
    references_in,
    resolved,
)

ATTEMPTS = 3
PAUSE_S = 0.5
"""The pause between attempts, doubled each time, and before the second request for an id."""
UNKNOWN_S = 30.0
"""How long an id is remembered as unknown. During this time no other id is requested twice: values
that are not framed name thousands of ids."""
UNKNOWN_MAX = 10_000

_UNKNOWN = (40401, 40402, 40403)
"""The registry's error codes for an unknown subject, version or schema. A 404 without one of them
comes from another server at that address."""


class RegistryError(RuntimeError):
    """Why the registry returns no schema, in one sentence for a user."""


class RegistryAwayError(RegistryError):
    """A temporary failure: the batch is worth another attempt."""


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a registry. `url` has no user; `user` is `name:password`."""

    url: str
    user: str = field(default="", repr=False)


class Answer(NamedTuple):
    """An HTTP response of a registry."""

    status: int
    body: bytes


Ask = Callable[[Address, str], Answer]
"""(registry, path) → the response. Raises OSError."""


def address_of(text: str) -> Address:
    """Parse the address in a file. Raises ValueError, whose text contains no password.

    The last @ ends the password, which may contain slashes, as Confluent's do.
    """
    scheme, _, rest = text.partition("://")
    user, _, host = rest.rpartition("@")
    url = f"{scheme}://{host}".rstrip("/")
    parts = urlsplit(url)
    is_whole = parts.scheme in ("http", "https") and parts.hostname
    if not is_whole or parts.query or parts.fragment or not url.isprintable() or " " in url:
        raise ValueError("no address")
    _ = parts.port  # raises ValueError
    return Address(url, unquote(user))


AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"
_QUERY = {AVRO: "", PROTOBUF: "?format=serialized", JSON: ""}
"""The path of a request. For Protobuf it requests serialized descriptors, not source text."""

Found = TypeVar("Found")


def schema_in(answer: Answer, registry: Address, what: str, wanted: str = AVRO) -> Registered:
    """The schema in a response to a request for `what`. Raises NoSchemaError, RegistryError."""
    said = _body(answer, registry, what)
    said = said if isinstance(said, dict) else {}
    references = references_in(said.get("references"))
    if answer.status != 200 or not isinstance(said.get("schema"), str) or references is None:
        raise _no_registry(answer, registry, what)
    kind = said.get("schemaType") or AVRO
    if kind != wanted:
        raise NoSchemaError(f"of type {kind}, not {wanted}")
    return Registered(str(said["schema"]), references)


def subjects_in(answer: Answer, registry: Address, what: str) -> tuple[str, ...]:
    """The subjects in a response to a request for a schema's subjects and versions, each once.
    Raises NoSchemaError, RegistryError."""
    said = _body(answer, registry, what)
    pairs = said if isinstance(said, list) else [None]
    subjects = [each.get("subject") if isinstance(each, dict) else None for each in pairs]
    if answer.status != 200 or not all(isinstance(each, str) for each in subjects):
        raise _no_registry(answer, registry, what)
    return tuple(sorted({str(each) for each in subjects}))


def _body(answer: Answer, registry: Address, what: str) -> Any:
    """The JSON of a response, None if it is not JSON. Raises NoSchemaError, RegistryError."""
    asked = f"the schema registry {registry.url}"
    try:
        said = json.loads(answer.body)
    except ValueError:
        said = None
    code = said.get("error_code") if isinstance(said, dict) else None
    if answer.status == 404 and code in _UNKNOWN:
        raise NoSchemaError("the registry does not know it")
    if answer.status in (401, 403):
        raise RegistryError(f"{asked} refuses {what} ({answer.status}): see its user")
    if answer.status >= 500 or answer.status == 429:
        raise RegistryAwayError(f"{asked} answers {answer.status} to {what}")
    return said


def _no_registry(answer: Answer, registry: Address, what: str) -> RegistryError:
    return RegistryError(
        f"the schema registry {registry.url} answers {answer.status} to {what}, not as a registry "
        "does: see its address"
    )


class Registry:
    """A caching client of one registry, one per process. Mutable: the cached schemas. `now_s`: a
    monotonic clock, in seconds."""

    def __init__(
        self,
        address: Address,
        ask: Ask,
        pause: Callable[[float], None],
        now_s: Callable[[], float],
        wanted: str = AVRO,
        *,
        with_imports: bool = False,
    ) -> None:
        """`wanted`: the type of the requested schemas. `with_imports`: those of Protobuf too."""
        self.address, self._wanted, self._with_imports = address, wanted, with_imports
        self._ask, self._pause, self._now_s = ask, pause, now_s
        self._schemas: dict[int, Schema] = {}
        self._unknown: dict[int, tuple[float, str]] = {}
        self._looked_again_at_s: float | None = None

    def text(self, number: int) -> str:
        """A schema's own text. Raises NoSchemaError, RegistryError."""
        return self.schema(number).text

    def schema(self, number: int) -> Schema:
        """A schema with those that it refers to. Raises NoSchemaError, RegistryError."""
        if number in self._schemas:
            return self._schemas[number]
        until_s, why = self._unknown.get(number, (0.0, ""))
        if why and self._now_s() < until_s:
            raise NoSchemaError(why)
        try:
            schema = self._schemas[number] = self._looked_for(number)
        except NoSchemaError as error:
            if len(self._unknown) >= UNKNOWN_MAX:
                self._unknown.clear()
            self._unknown[number] = (self._now_s() + UNKNOWN_S, str(error))
            raise
        return schema

    def _looked_for(self, number: int) -> Schema:
        """Request a schema, twice if it is unknown: the answering replica may lag another one."""
        try:
            return self._whole(number)
        except NoSchemaError:
            last_s = self._looked_again_at_s
            if last_s is not None and self._now_s() - last_s < UNKNOWN_S:
                raise
        self._looked_again_at_s = self._now_s()
        self._pause(PAUSE_S)
        return self._whole(number)

    def latest(self, subject: str) -> Schema:
        """The newest schema of a subject, which is not cached. Raises NoSchemaError,
        RegistryError."""
        path = f"/subjects/{quote(subject, safe='')}/versions/latest{_QUERY[self._wanted]}"
        found = self._asked(path, f"the newest schema of {subject}", self._schema_in)
        return self._with_references(0, found)

    def subjects(self, number: int) -> tuple[str, ...]:
        """The subjects that have a schema. Raises NoSchemaError, RegistryError."""
        path, what = f"/schemas/ids/{number}/versions", f"the subjects of schema {number}"
        try:
            return self._asked(path, what, subjects_in)
        except NoSchemaError as error:
            raise NoSchemaError(f"schema {number}: {error}") from error

    def _whole(self, number: int) -> Schema:
        try:
            path = f"/schemas/ids/{number}{_QUERY[self._wanted]}"
            found = self._asked(path, f"schema {number}", self._schema_in)
        except NoSchemaError as error:
            raise NoSchemaError(f"schema {number}: {error}") from error
        return self._with_references(number, found)

    def _with_references(self, number: int, found: Registered) -> Schema:
        if (self._wanted == PROTOBUF and not self._with_imports) or (
            self._wanted == JSON and not needs_references(found.text)
        ):
            return Schema(found.text)
        return resolved(number, found, self._referenced)

    def _referenced(self, reference: Reference) -> Registered:
        path = f"/subjects/{quote(reference.subject, safe='')}/versions/{reference.version}"
        path += _QUERY[self._wanted]
        return self._asked(path, f"the reference {reference}", self._schema_in)

    def _schema_in(self, answer: Answer, registry: Address, what: str) -> Registered:
        return schema_in(answer, registry, what, self._wanted)

    def _asked(
        self, path: str, what: str, found_in: Callable[[Answer, Address, str], Found]
    ) -> Found:
        """Send a request, with retries of temporary failures."""
        for attempt in range(ATTEMPTS):
            try:
                return self._once(path, what, found_in)
            except RegistryAwayError:
                if attempt == ATTEMPTS - 1:
                    raise
            self._pause(PAUSE_S * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def _once(
        self, path: str, what: str, found_in: Callable[[Answer, Address, str], Found]
    ) -> Found:
        try:
            answer = self._ask(self.address, path)
        except OSError as error:
            raise RegistryAwayError(unreached(self.address, error)) from error
        return found_in(answer, self.address, what)


def unreached(registry: Address, error: OSError) -> str:
    """The message for a registry that did not answer."""
    reason = getattr(error, "reason", error)
    cause = getattr(reason, "strerror", None) or reason
    return f"the schema registry {registry.url} cannot be reached: {cause}"
