"""Compiles the C of the broker, each file next to its source, for every platform that it comes
with: `./build.sh native`. Zig's C compiler, of one fixed version, knows them all and gives the same
bytes on every machine; `--check` compares them with what is there.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import sysconfig
import tempfile
import venv
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORDS, DISK = "josefine_broker/records/native", "josefine_broker/host/disk/native"
NATIVE = ROOT / RECORDS
MODULES = {
    "record_structure": RECORDS, "plain_produce": RECORDS, "plain_fetch": RECORDS,
    "sync_thread": DISK,
}  # fmt: skip
"""Module → the folder of its source."""
HEADERS = ("record_walk.h", "produce_frame.h", "produce_parts.h", "wire_bytes.h")
SOURCES = (
    *(f"{folder}/{module}.c" for module, folder in MODULES.items()),
    *(f"{RECORDS}/{header}" for header in HEADERS),
)
STAMP = NATIVE / "built.txt"
"""What was built of what: the digests of the sources and of each binary."""
ZIG = "ziglang==0.15.2"
TARGETS = {
    "linux_x86_64": "x86_64-linux-gnu.2.17",
    "linux_aarch64": "aarch64-linux-gnu.2.17",
}
"""Our folder → Zig's target. The binaries need nothing of libc but what Python has loaded and musl
has, too."""
COMPILE = (
    "-c", "-fPIC", "-O3", "-fno-stack-protector", "-fno-sanitize=all", "-fvisibility=hidden",
    "-Wall", "-Wextra", "-Werror", "-g0",
)  # fmt: skip


def binary(platform: str, module: str, root: Path = ROOT) -> Path:
    """Where a platform's binary of a module is."""
    return root / MODULES[module] / platform / f"{module}.abi3.so"


def digests(root: Path = ROOT) -> str:
    """The text of the stamp for what is in `root`."""
    files = {name: ROOT / name for name in SOURCES}
    for platform in TARGETS:
        for module in MODULES:
            path = binary(platform, module, root)
            files[path.relative_to(root).as_posix()] = path
    return "".join(
        f"{sha256(file.read_bytes()).hexdigest()}  {name}\n" for name, file in files.items()
    )


def build(root: Path, zig: Path) -> None:
    """Compile for all platforms into `root`; `zig` is a Python that has the package."""
    include = sysconfig.get_path("include")
    with tempfile.TemporaryDirectory() as scratch:
        for platform, target in TARGETS.items():
            compiler = [str(zig), "-m", "ziglang", "cc", "-target", target]
            for module, folder in MODULES.items():
                part, to = Path(scratch) / f"{platform}-{module}.o", binary(platform, module, root)
                to.parent.mkdir(parents=True, exist_ok=True)
                # From the source's folder: its path would else be in the binary.
                subprocess.run(
                    [*compiler, *COMPILE, f"-I{include}", "-o", str(part), f"{module}.c"],
                    cwd=ROOT / folder, check=True,
                )  # fmt: skip
                link = ["-shared", "-s", "-nostdlib", "-o", str(to), str(part)]
                subprocess.run([*compiler, *link], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only compare with what is there")
    only_check = parser.parse_args().check
    with tempfile.TemporaryDirectory(prefix="zig-") as home:
        venv.create(home, with_pip=True)
        zig = Path(home) / "bin/python"
        subprocess.run([zig, "-m", "pip", "install", "-q", ZIG], check=True)
        root = Path(home) / "native" if only_check else ROOT
        build(root, zig)
        if only_check:
            return 0 if digests(root) == STAMP.read_text() else 1
    STAMP.write_text(digests())
    return 0


if __name__ == "__main__":
    sys.exit(main())
