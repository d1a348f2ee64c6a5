"""The start script of Spark's Python processes: they import the driver's installed PySpark and not
its zip.

Spark puts `pyspark.zip`, Py4J's zip and a jar of its own first on the path of every Python process
(PythonUtils.sparkPythonPath). Modules in a zip have no compiled form, so each start compiles 200
files, and each task lists the zips' contents again (importlib.invalidate_caches). On one machine
the processes can use the installed package instead, which is the same code: a small script in the
cache removes the zips from the path and runs this interpreter. Measured for the process that a
stream starts: 1.4 s of processor time with the zips, 0.65 s without.

The script also sets OMP_NUM_THREADS=1, which Spark sets for task processes only, so that numpy
starts no threads. Their spinning takes half of the 0.3 s of processor time of numpy's import.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
import sysconfig
from pathlib import Path

from josefine_arrow.cache.directory import cache_dir

NAMES = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
"""Spark's variables for the interpreter of tasks, and for the one of planners and streams."""

SCRIPT = """\
#!/bin/sh
# Written by josefine: see josefine_spark/sessions/python_worker.py.
set -f
IFS=:
kept=
for path in $PYTHONPATH; do
  case $path in
    {home}/*) ;;
    *) kept=$kept:$path ;;
  esac
done
PYTHONPATH=${{kept#:}}
export PYTHONPATH
unset IFS
export OMP_NUM_THREADS="${{OMP_NUM_THREADS:-1}}"
exec {python} "$@"
"""


def choose_python(*, local: bool) -> None:
    """Set the interpreter of Spark's Python processes, unless the user has set one."""
    script = _script()
    path = _path(script) if script else None
    ours = {None, sys.executable, str(path)}
    chosen = str(path) if local and script and path and _written(path, script) else sys.executable
    for name in NAMES:
        if os.environ.get(name) in ours:
            os.environ[name] = chosen


def _script() -> str | None:
    """The start script; None if a process might not find PySpark without Spark's path entries."""
    import py4j
    import pyspark

    home = Path(pyspark.__file__).parent
    installed = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
    if os.name != "posix" or os.environ.get("SPARK_HOME", str(home)) != str(home):
        return None
    if home.parent not in installed or Path(py4j.__file__).parent.parent not in installed:
        return None
    return SCRIPT.format(home=shlex.quote(str(home)), python=shlex.quote(sys.executable))


def _path(script: str) -> Path | None:
    try:
        folder = cache_dir("workers")
    except OSError:
        return None
    return folder / f"python-{hashlib.sha256(script.encode()).hexdigest()[:16]}"


def _written(path: Path, script: str) -> bool:
    """Whether the script exists and is executable (the cache's file system may be noexec)."""
    try:
        if not path.exists():
            fresh = path.with_name(f"{path.name}.{os.getpid()}")
            fresh.write_text(script)
            fresh.chmod(0o755)
            fresh.rename(path)
    except OSError:
        return False
    return os.access(path, os.X_OK)
