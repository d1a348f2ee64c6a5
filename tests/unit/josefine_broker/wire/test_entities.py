"""Our shapes of Kafka's messages are those that the schemas make."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from josefine_broker.wire import apis
from josefine_broker.wire.apis import APIS
from tests import generate_entities as generated


def test_files_are_those_that_are_generated() -> None:
    files = generated.files()

    assert {path.name for path in generated.FOLDER.glob("*.py")} == set(files)
    for name, text in files.items():
        assert (generated.FOLDER / name).read_text() == text, (
            f"{name} is not what kio's schemas make: run ./build.sh docs"
        )


def text_of(module: str) -> str:
    spec = next(each for each in APIS.values() if generated._module(each) == module)
    try:
        return generated.text_of(spec)
    except AssertionError as error:  # request and response have two of one name
        return str(error)


@pytest.mark.parametrize("table", [generated.REQUIRED, generated.OPTIONAL])
def test_each_field_that_is_an_exception_needs_to_be_one(
    table: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for struct, fields in list(table.items()):
        module = struct.partition(".")[0]
        wanted = text_of(module)
        for field in fields.split():
            without = [each for each in fields.split() if each != field]
            monkeypatch.setitem(table, struct, " ".join(without))
            assert text_of(module) != wanted, (struct, field)
        monkeypatch.setitem(table, struct, fields)


def test_each_name_value_and_older_field_that_is_an_exception_is_there() -> None:
    texts = {name.removesuffix(".py"): text for name, text in generated.files().items()}
    everything = "".join(texts.values())

    for path, value in generated.VALUES.items():
        module, _, field = path.split(".")
        assert any(
            line.split("  #")[0].endswith(f" = {value}") and f" {field}: " in line
            for line in texts[module].splitlines()
        ), path
    for struct, fields in generated.OLDER.items():
        for field in fields:
            assert f"class {struct}:" in everything
            assert f"    {field}: " in everything
    for message, names in generated.NAMES.items():
        assert f"class {message}:" in everything
        for name in names.values():
            assert f"class {name}:" in everything


def test_a_new_api_gets_a_file_whose_docstrings_are_to_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generated, "FOLDER", tmp_path)
    spec = APIS[apis.DESCRIBE_DELEGATION_TOKEN]

    first = generated.text_of(spec)
    written = first.replace(
        '"""DescribeDelegationTokenRequest."""', '"""Asks.\n\n    Null means all."""'
    ).replace("version 3.", "version 2. Of a day.")
    (tmp_path / "describe_delegation_token.py").write_text(written + "\n\nLIMIT = 3\n")

    assert ast.get_docstring(ast.parse(first)) == (
        "DescribeDelegationToken (key 41) in the one shape that handlers see: version 3."
    )
    again = generated.text_of(spec)
    assert 'version 3. Of a day."""' in again
    assert '    """Asks.\n\n    Null means all."""' in again
    assert "\nLIMIT = 3\n" in again


def test_what_is_secret_is_not_shown() -> None:
    text = text_of("alter_user_scram_credentials")

    assert "    salted_password: bytes = field(repr=False)\n" in text
