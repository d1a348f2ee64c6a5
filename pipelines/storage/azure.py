"""The Azure settings of one path, from the settings of Hadoop's ABFS in `spark.conf`.

Pure. Settings of one account (`fs.azure....ACCOUNT.dfs.core.windows.net`) come before those of all.
The variables of Azure's tools fill what they leave open. A path for which neither names a user is
left to Spark: the libraries would ask the network who they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from pipelines.storage.location import (
    ATTEMPTS_MAX,
    CONNECT_TIMEOUT_S,
    Causes,
    Location,
    split_uri,
)

PREFIX = "spark.hadoop.fs.azure."
NO_USER = (
    f"neither `{PREFIX}account.*` nor AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN names "
    "a user that works without Spark"
)
_TENANT = re.compile(r"https://[^/]+/([^/]+)/oauth2/(?:v2\.0/)?token")
_CLIENT, _IDENTITY = "ClientCredsTokenProvider", "MsiTokenProvider"


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureLocation(Location):
    """A folder in a container of an account. One of: `account_key`; `sas_token`; `client_id` with
    its secret and tenant; else the identity of the machine, the one with `client_id` if it is set.

    `endpoint`: a URL with the account's name in its path, "" for Azure.
    """

    account: str
    endpoint: str = ""
    account_key: str = field(default="", repr=False)
    sas_token: str = field(default="", repr=False)  # without a question mark
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    tenant_id: str = ""

    @property
    def where(self) -> str:
        return self.endpoint or f"Azure's account {self.account}"

    @property
    def causes(self) -> Causes:
        return _CAUSES


_CAUSES: Causes = (
    (
        r"ContainerNotFound|The specified container does not exist",
        "there is no container `{bucket}` in {where}; create it or correct the path",
    ),
    (
        r"AuthenticationFailed|Authorization(Failure|PermissionMismatch)|HTTP status 403",
        f"{{where}} refuses the user; correct the settings `{PREFIX}account.*` or give the user "
        "the rights to list and read container `{bucket}`",
    ),
    (
        r"ServerBusy|OperationTimedOut|HTTP status 503",
        "{where} asks for fewer requests (503 ServerBusy); wait and repeat the command",
    ),
    (
        r"[Cc]onnection refused|[Cc]ould ?n[o']t (connect|resolve)|Fail to get a new connection",
        "{where} does not answer; correct the account in the path, or AZURE_STORAGE_ENDPOINT",
    ),
)


def azure_location(
    path: str, conf: Mapping[str, str], env: Mapping[str, str]
) -> AzureLocation | None:
    """Read the settings for an `abfs://` or `abfss://` path; None if nothing names a user whom the
    libraries can be. Raises StorageError."""
    scheme, authority, key = split_uri(path)
    container, _, host = authority.partition("@")
    account = host.partition(".")[0]
    user = _user(_settings(conf, host), env)
    if user is None:
        return None
    return AzureLocation(
        uri=f"{scheme}://{authority}/{key}",
        bucket=container,
        key=key,
        account=account,
        endpoint=env.get("AZURE_STORAGE_ENDPOINT", "").rstrip("/"),
        **user,
    )


def arrow_arguments(at: AzureLocation) -> dict[str, str]:
    """The arguments of pyarrow's `AzureFileSystem`."""
    parts = urlsplit(at.endpoint)
    given = {
        "account_name": at.account,
        "account_key": at.account_key,
        # It is put after the URL as it is: without its mark it would be a folder, and in errors.
        "sas_token": at.sas_token and f"?{at.sas_token}",
        "client_id": at.client_id,
        "client_secret": at.client_secret,
        "tenant_id": at.tenant_id,
        "blob_storage_authority": parts.netloc,
        "blob_storage_scheme": parts.scheme,
        "dfs_storage_authority": parts.netloc,
        "dfs_storage_scheme": parts.scheme,
    }
    return {name: value for name, value in given.items() if value}


def delta_options(at: AzureLocation) -> dict[str, str]:
    """The storage options of delta-rs."""
    given = {
        "AZURE_STORAGE_ACCOUNT_NAME": at.account,
        "AZURE_STORAGE_ACCOUNT_KEY": at.account_key,
        "AZURE_STORAGE_SAS_KEY": at.sas_token,
        "AZURE_STORAGE_CLIENT_ID": at.client_id,
        "AZURE_STORAGE_CLIENT_SECRET": at.client_secret,
        "AZURE_STORAGE_TENANT_ID": at.tenant_id,
        "AZURE_STORAGE_ENDPOINT": at.endpoint,
        "AZURE_ALLOW_HTTP": "true" if at.endpoint.startswith("http://") else "",
    }
    return {
        **{name: value for name, value in given.items() if value},
        "connect_timeout": f"{CONNECT_TIMEOUT_S}s",
        "max_retries": str(ATTEMPTS_MAX - 1),
    }


def _settings(conf: Mapping[str, str], host: str) -> dict[str, str]:
    """ABFS's settings by their short names; those of the account come before those of all."""
    found = {k.removeprefix(PREFIX): v for k, v in conf.items() if k.startswith(PREFIX)}
    own = {k.removesuffix(f".{host}"): v for k, v in found.items() if k.endswith(f".{host}")}
    return found | own


def _user(settings: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str] | None:
    """The fields of an AzureLocation of the user; None if the libraries cannot be that."""
    kind = settings.get("account.auth.type", "")
    key, sas = settings.get("account.key", ""), settings.get("sas.fixed.token", "").lstrip("?")
    if kind in ("", "SharedKey") and key:
        return {"account_key": key}
    if kind in ("", "SAS") and sas:
        return {"sas_token": sas}
    if kind == "OAuth":
        return _of_oauth(settings)
    if kind:
        return None  # Custom, or a key that only another setting has
    for name, variable in (
        ("account_key", "AZURE_STORAGE_ACCOUNT_KEY"),
        ("account_key", "AZURE_STORAGE_KEY"),
        ("sas_token", "AZURE_STORAGE_SAS_TOKEN"),
    ):
        if env.get(variable):
            return {name: env[variable].lstrip("?")}
    return None


def _of_oauth(settings: Mapping[str, str]) -> dict[str, str] | None:
    provider = settings.get("account.oauth.provider.type", "").rpartition(".")[2]
    client = settings.get("account.oauth2.client.id", "")
    if provider == _IDENTITY:
        return {"client_id": client}
    tenant = _TENANT.match(settings.get("account.oauth2.client.endpoint", ""))
    secret = settings.get("account.oauth2.client.secret", "")
    if provider != _CLIENT or not (client and secret and tenant):
        return None
    return {"client_id": client, "client_secret": secret, "tenant_id": tenant[1]}
