"""A run of a page's commands, one after the other in an empty folder: `python -m tests.pages.run
PAGE ...`.

Each page runs in a network of its own, so that its ports are free. The output is shown, and the
lines that a page shows and that were not printed make the run fail.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.pages.blocks import BROKER, ROOT, files, missing, steps

INSIDE = "JOSEFINE_PAGE_NETWORK"
READY = "for i in $(seq 300); do curl -fs 127.0.0.1:9644/health/ready >/dev/null && exit 0; "
READY += "sleep 0.2; done; exit 1"
"""A bounded wait in the shell; the broker is another process, in the network of this one."""
STEP_TIMEOUT_S = 1_500


def run_page(page: Path, *, show: bool = True) -> list[str]:
    """What went wrong, or nothing."""
    text = page.read_text()
    wrong = []
    with tempfile.TemporaryDirectory(prefix="page-") as folder:
        for name in files(text):
            shutil.copy(ROOT / name, folder)
        with serving(text, Path(folder)):
            for step in steps(text):
                done = shell(step.commands, Path(folder))
                if show:
                    print(f"$ {step.commands}{done.stdout}", flush=True)
                gone = [f"not printed: {line}" for line in missing(step, done.stdout)]
                if done.returncode or gone:
                    wrong += [f"{step.commands}: exit code {done.returncode}", *gone]
    return wrong


def shell(commands: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The commands in one shell, both outputs together; it ends with the first that fails."""
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", commands],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=STEP_TIMEOUT_S,
        check=False,
    )


def environment() -> dict[str, str]:
    """The user's, with this checkout's commands first."""
    path = f"{ROOT / '.venv/bin'}:{os.environ['PATH']}"
    return os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)}


@contextmanager
def serving(text: str, folder: Path) -> Iterator[None]:
    """A broker in the folder, if the page wants one."""
    wanted = BROKER.search(text)
    if wanted is None:
        yield
        return
    settings = dict(each.split("=", 1) for each in (wanted[1] or "").split())
    with (folder / "broker.log").open("w") as log:
        process = subprocess.Popen(
            ["josefine", "broker"],
            cwd=folder,
            env=environment() | settings,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        if shell(READY, folder).returncode:
            raise OSError((folder / "broker.log").read_text())
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


def main(pages: list[str]) -> int:
    """Run in a network of its own; the exit code is 1 if a page failed."""
    if INSIDE not in os.environ:
        inner = f"ip link set lo up && exec {sys.executable} -m tests.pages.run {' '.join(pages)}"
        command = ["unshare", "--net", "sh", "-c", inner]
        return subprocess.run(command, env=os.environ | {INSIDE: "1"}, check=False).returncode
    wrong = {page: found for page in pages if (found := run_page(Path(page)))}
    for page, found in wrong.items():
        print(f"{page} is wrong:", *found, sep="\n  ", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
