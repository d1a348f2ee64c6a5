"""Spark's own Kafka connector, fetched once by Maven from the pom.xml beside this file."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from josefine_spark.cache import cache_dir

POM = Path(__file__).with_name("pom.xml")
FOLDER = "spark-sql-kafka-0-10-4.2.0"
TIMEOUT_S = 600


class NoPeerError(RuntimeError):
    """Why the peer cannot be measured, in one sentence."""


def peer_jars() -> list[str]:
    """Paths of the jars. Raises NoPeerError."""
    folder = cache_dir("jars") / FOLDER
    if not folder.is_dir():
        _fill(folder)
    return sorted(str(path) for path in folder.glob("*.jar"))


def _fill(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise NoPeerError(
            "there is no Maven (`mvn`) to fetch spark-sql-kafka-0-10 with: "
            "install it (Debian: apt-get install maven) and run this again"
        )
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="filling-") as scratch:
        target = Path(scratch) / "jars"
        command = [
            maven, "--quiet", "--batch-mode", f"--file={POM}", f"-DoutputDirectory={target}",
            "dependency:copy-dependencies",
        ]  # fmt: skip
        done = subprocess.run(
            command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=TIMEOUT_S
        )
        if done.returncode != 0:
            reason = (done.stdout.strip().splitlines() or ["it said nothing"])[0]
            raise NoPeerError(f"Maven could not fetch spark-sql-kafka-0-10: {reason}")
        target.rename(folder)
