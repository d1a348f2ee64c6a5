"""Compiles the C in `josefine_broker/records/native/` for every platform that it comes with:
`./build.sh native`. Zig's C compiler, of one fixed version, knows them all and gives the same
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

NATIVE = Path(__file__).resolve().parents[1] / "josefine_broker/records/native"
MODULES = ("record_structure", "plain_produce", "plain_fetch")
HEADERS = ("record_walk.h", "produce_frame.h", "produce_parts.h", "wire_bytes.h")
SOURCES = (*(f"{module}.c" for module in MODULES), *HEADERS)
STAMP = NATIVE / "built.txt"
"""What was built of what: the digests of the sources and of each binary."""
ZIG = "ziglang==0.15.2"
TARGETS = {
    "linux_x86_64": "x86_64-linux-gnu.2.17",
    "linux_aarch64": "aarch64-linux-gnu.2.17",
}
"""Our folder → Zig's target. The binaries need nothing of libc, so they load under musl, too."""
COMPILE = (
    "-c", "-fPIC", "-O3", "-fno-stack-protector", "-fno-sanitize=all", "-fvisibility=hidden",
    "-Wall", "-Wextra", "-Werror", "-g0",
)  # fmt: skip


def binary(folder: str, module: str = MODULES[0], root: Path = NATIVE) -> Path:
    """Where a platform's binary of a module is."""
    return root / folder / f"{module}.abi3.so"


def digests(root: Path = NATIVE) -> str:
    """The text of the stamp for what is in `root`."""
    files = {name: NATIVE / name for name in SOURCES}
    for folder in TARGETS:
        for module in MODULES:
            path = binary(folder, module, root)
            files[f"{folder}/{path.name}"] = path
    return "".join(
        f"{sha256(file.read_bytes()).hexdigest()}  {name}\n" for name, file in files.items()
    )


def build(root: Path, zig: Path) -> None:
    """Compile for all platforms into `root`; `zig` is a Python that has the package."""
    include = sysconfig.get_path("include")
    with tempfile.TemporaryDirectory() as scratch:
        for folder, target in TARGETS.items():
            compiler = [str(zig), "-m", "ziglang", "cc", "-target", target]
            for module in MODULES:
                part, to = Path(scratch) / f"{folder}-{module}.o", binary(folder, module, root)
                to.parent.mkdir(parents=True, exist_ok=True)
                # From the source's folder: its path would else be in the binary.
                subprocess.run(
                    [*compiler, *COMPILE, f"-I{include}", "-o", str(part), f"{module}.c"],
                    cwd=NATIVE, check=True,
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
        root = Path(home) / "native" if only_check else NATIVE
        build(root, zig)
        if only_check:
            return 0 if digests(root) == STAMP.read_text() else 1
    STAMP.write_text(digests())
    return 0


if __name__ == "__main__":
    sys.exit(main())
