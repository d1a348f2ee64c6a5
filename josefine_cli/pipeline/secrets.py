"""Masking of a pipeline's secrets in all output, including errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import typer

from josefine_cli.pipeline.file import print_json
from pipelines.base.errors import ConfigError, PipelineError
from pipelines.base.variables import hidden
from pipelines.model.pipeline import Pipeline


@contextmanager
def hiding(pipeline: Pipeline) -> Iterator[None]:
    """Mask secrets in the text of every error; Spark's errors may quote settings.

    With secrets in the file, JOSEFINE_DEBUG shows no trace below here.
    """
    try:
        yield
    except Exception as error:
        if not pipeline.secrets or isinstance(error, typer.Exit):
            raise
        said = hidden(str(error), pipeline.secrets)
        if isinstance(error, ConfigError):
            problems = [
                replace(each, message=hidden(each.message, pipeline.secrets))
                for each in error.problems
            ]
            raise ConfigError(problems) from None
        if isinstance(error, PipelineError):
            raise type(error)(said) from None
        raise PipelineError(f"unexpected {type(error).__name__}: {said}") from None


def say(pipeline: Pipeline, text: str) -> None:
    """Print a text."""
    print(hidden(text, pipeline.secrets))


def print_hidden_json(pipeline: Pipeline, value: Any) -> None:
    """One line, for scripts."""
    print_json(_hidden(value, pipeline.secrets))


def _hidden(value: Any, secrets: frozenset[str]) -> Any:
    """The value with secrets masked in every text, also in names."""
    if isinstance(value, str):
        return hidden(value, secrets)
    if isinstance(value, dict):
        return {_hidden(key, secrets): _hidden(each, secrets) for key, each in value.items()}
    if isinstance(value, list):
        return [_hidden(each, secrets) for each in value]
    return value
