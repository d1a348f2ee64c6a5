"""The form of a URL of a file system, and what a malformed one lacks. Pure.

The topic configs, the pipeline files and the readers without Spark refuse the same URLs, before
anything is opened: a library would take a part of the folder for the bucket, or an unknown user.
"""

import re

S3_SCHEMES = ("s3", "s3a")
STORE_SCHEMES = (*S3_SCHEMES, "abfs", "abfss", "gs")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_CONTAINER = re.compile(r"[^@/:\s]+@[A-Za-z0-9][^@/\s]*")
_PASSWORD = re.compile(r"(?<=://)[^/@]*:.*(?=@)")
_FORMS = {
    **dict.fromkeys((*S3_SCHEMES, "gs"), ("bucket", _BUCKET, "BUCKET")),
    **dict.fromkeys(
        ("abfs", "abfss"),
        ("container and account", _CONTAINER, "CONTAINER@ACCOUNT.dfs.core.windows.net"),
    ),
    "file": ("folder of this machine", re.compile(""), ""),
}
"""Scheme -> what comes after `//`: its name, its form, an example."""


def malformed(url: str) -> str:
    """What is wrong with a URL, as a predicate; "" for a valid one, a path and another scheme."""
    found = _SCHEME.match(url)
    scheme = found[1].lower() if found else ""
    if found is None or scheme not in _FORMS:
        return ""
    name, form, example = _FORMS[scheme]
    expected = f"expected {scheme}://{example}/FOLDER"
    rest = url[found.end() :]
    if found[1] != scheme:
        return f"has its scheme in capitals: {expected}"
    if _PASSWORD.search(url):
        return f"has a user, whose keys belong into settings: {expected}"
    if scheme == "file" and rest.startswith("/") and not rest.startswith("//"):
        return ""  # file:/FOLDER is Java's form of file:///FOLDER
    is_valid = rest.startswith("//") and form.fullmatch(rest[2:].partition("/")[0])
    return "" if is_valid else f"names no {name}: {expected}"


def without_password(url: str) -> str:
    """The URL for messages: users and keys, which are never valid there, are left out."""
    return _PASSWORD.sub("***", url)
