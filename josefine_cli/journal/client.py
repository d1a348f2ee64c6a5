"""The broker client of `josefine journal`, with the settings of --client-config as in all verbs."""

from __future__ import annotations

import os
from collections.abc import Mapping

from josefine_broker.client.io_asyncio import AsyncClient
from josefine_cli.base.client_config import configured_security, configured_settings
from josefine_cli.base.output import PATIENCE


def journal_client(bootstrap: str, client_id: str) -> AsyncClient:
    """A client with timeouts for interactive use. Raises UsageError."""
    security = configured_security(os.environ, bootstrap)
    return AsyncClient(bootstrap, client_id=client_id, policy=PATIENCE, security=security)


def spark_options(env: Mapping[str, str]) -> dict[str, str]:
    """The same settings as options of the source in Spark. Raises UsageError."""
    return {f"kafka.{name}": value for name, value in configured_settings(env).items()}
