"""Refusal of every build of the whole repository but an editable install.

The repository is published as several distributions (`conf/distributions/table.py`), so a wheel of
all of it would own files that are theirs. Everything else about the editable install is in
pyproject.toml.
"""

import sys

from setuptools import setup

REFUSED = {"bdist_wheel", "sdist", "install"}

if REFUSED & set(sys.argv):
    sys.exit(
        "error: this folder installs in editable mode only: pip install -e . (or ./build.sh setup);"
        " ./build.sh release makes the wheels of its distributions in dist/"
    )
setup()
