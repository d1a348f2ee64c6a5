"""The files that a registered Protobuf file imports are found, or named."""

import base64
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from josefine_arrow.formats.protobuf.descriptors import SchemaError, message_of
from josefine_arrow.formats.protobuf.registered import descriptors_of


def file(name: str, *imports: str, **fields: str) -> Any:
    """A file of package `shop` with one message of its capitalized name. `fields`: their types."""
    made = descriptor_pb2.FileDescriptorProto(name=name, package="shop", dependency=imports)
    message = made.message_type.add(name=name.removesuffix(".proto").rpartition("/")[2].title())
    for number, (field, kind) in enumerate(fields.items(), 1):
        message.field.add(name=field, number=number, type=11, label=1, type_name=kind)
    return made


def text(made: Any) -> str:
    return base64.b64encode(made.SerializeToString()).decode()


def test_imports_come_before_what_imports_them_whatever_their_order() -> None:
    order = file(
        "order.proto", "a/line.proto", "google/protobuf/timestamp.proto",
        line=".shop.Line", at=".google.protobuf.Timestamp",
    )  # fmt: skip
    line = file("default", "a/price.proto", price=".shop.Price")
    line.message_type[0].name = "Line"
    referenced = [("a/line.proto", text(line)), ("a/price.proto", text(file("price.proto")))]

    for given in (referenced, referenced[::-1]):
        made = message_of(descriptors_of(text(order), given), "shop.Order")

        assert made().line.price.DESCRIPTOR.full_name == "shop.Price"


def test_a_file_that_two_import_is_there_once() -> None:
    order = file("order.proto", "a.proto", "b.proto", a=".shop.A", b=".shop.B")
    referenced = {
        "a.proto": text(file("a.proto", "c.proto", c=".shop.C")),
        "b.proto": text(file("b.proto", "c.proto", c=".shop.C")),
        "c.proto": text(file("c.proto")),
    }

    made = message_of(descriptors_of(text(order), tuple(referenced.items())), "shop.Order")

    assert made().b.c.DESCRIPTOR.full_name == "shop.C"


@pytest.mark.parametrize(
    ("schema", "referenced", "why"),
    [
        (text(file("o.proto", "shop/x.proto")), (), "it imports shop/x.proto, which"),
        (text(file("o.proto", "google/protobuf/none.proto")), (), "it imports google/protobuf/no"),
        (text(file("o.proto", "o.proto")), (), "o.proto imports itself"),
        (
            text(file("o.proto", "a.proto")),
            (("a.proto", text(file("a.proto", "b.proto"))),
             ("b.proto", text(file("b.proto", "a.proto")))),
            "a.proto imports itself",
        ),
        ("syntax = 'proto3';", (), "the registry's answer has no descriptors"),
        (text(file("o.proto", "a.proto")), (("a.proto", "?"),), "the registry's answer has no"),
    ],
)  # fmt: skip
def test_what_is_missing_or_damaged_is_named(
    schema: str, referenced: tuple[tuple[str, str], ...], why: str
) -> None:
    with pytest.raises(SchemaError, match=why):
        descriptors_of(schema, referenced)
