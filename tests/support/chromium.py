"""A real Chromium without a window, driven by its own protocol: pages, scripts, pictures."""

from __future__ import annotations

import asyncio
import base64
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
TIMEOUT_S = 60.0
SWITCHES = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--no-first-run", "--disable-background-networking", "--disable-extensions",
    "--remote-debugging-port=0", "--hide-scrollbars",
)  # fmt: skip

_DIFFERENCE = """async ([pictures, side, shades]) => {
  const [one, other] = await Promise.all(pictures.map(async data => {
    const image = new Image();
    image.src = `data:image/png;base64,${data}`;
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height), pen = canvas.getContext("2d");
    pen.drawImage(image, 0, 0);
    return pen.getImageData(0, 0, image.width, image.height);
  }));
  if (one.width !== other.width || one.height !== other.height) return 1;
  const across = Math.ceil(one.width / side), blocks = across * Math.ceil(one.height / side);
  const sums = new Float64Array(blocks), counts = new Float64Array(blocks);
  for (let at = 0; at < one.data.length; at += 4) {
    const x = (at / 4) % one.width, y = Math.floor(at / 4 / one.width);
    const block = across * Math.floor(y / side) + Math.floor(x / side);
    for (const each of [0, 1, 2]) sums[block] += one.data[at + each] - other.data[at + each];
    counts[block] += 3;
  }
  return sums.filter((sum, block) => Math.abs(sum / counts[block]) > shades).length / blocks;
}"""
BLOCK, SHADES = 16, 4
"""Side of a block, and the difference of means that counts: other fonts are alike, another layout
is not."""


class Page:
    """One tab."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self.said: list[str] = []
        """Errors and warnings of its console, broken content policies among them."""

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            message = await self._socket.receive_json(timeout=TIMEOUT_S)
            if message.get("method") in ("Log.entryAdded", "Runtime.exceptionThrown"):
                self.said.append(str(message["params"]))
            if message.get("id") == self._number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result

    async def run(self, script: str) -> Any:
        """The value of an expression; a promise is awaited."""
        told = await self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    async def until(self, script: str) -> Any:
        """Until the expression is true; its value."""
        async with asyncio.timeout(TIMEOUT_S):
            while not (value := await self.run(script)):
                await asyncio.sleep(0.05)
        return value

    async def key(self, key: str, code: int) -> None:
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            await self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key,
                windowsVirtualKeyCode=code, **text,
            )  # fmt: skip

    async def look(self, *, scheme: str, width: int, height: int, scale: float = 1) -> None:
        """A window of this size in a light or dark world; pictures of it are `scale` as large."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=scale, mobile=False,
        )  # fmt: skip
        feature = {"name": "prefers-color-scheme", "value": scheme}
        await self.call("Emulation.setEmulatedMedia", features=[feature])

    async def difference(self, one: bytes, other: bytes) -> float:
        """The share of blocks of two PNGs with another mean colour; 1 for another size."""
        pictures = [base64.b64encode(each).decode() for each in (one, other)]
        share: float = await self.run(f"({_DIFFERENCE})({[pictures, BLOCK, SHADES]})")
        return share

    async def picture(self, path: Path, *, beyond: bool = True, of: str = "") -> None:
        """A PNG of the page; without `beyond` of its visible part, with `of` of an element."""
        clip: dict[str, Any] = {}
        size = "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
        if of:
            script = f"(() => {{ const r = document.querySelector({of!r}).getBoundingClientRect();"
            x, y, width, height = await self.run(
                f"{script} return [r.x + scrollX, r.y + scrollY, r.width, r.height]; }})()"
            )
            clip = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
        elif beyond:
            width, height = await self.run(size)
            clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        shown = await self.call(
            "Page.captureScreenshot",
            captureBeyondViewport=bool(clip), **({"clip": clip} if clip else {}),
        )  # fmt: skip
        path.write_bytes(base64.b64decode(shown["data"]))


@asynccontextmanager
async def page(url: str) -> AsyncIterator[Page]:
    """A browser with this page open; it ends with the block."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        process = await asyncio.create_subprocess_exec(
            CHROMIUM, *SWITCHES, f"--user-data-dir={home}", "about:blank",
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            port = await _port(Path(home) / "DevToolsActivePort")
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/json/list") as response:
                    tabs = await response.json(content_type=None)
                address = next(tab for tab in tabs if tab["type"] == "page")["webSocketDebuggerUrl"]
                async with session.ws_connect(address, max_msg_size=0) as socket:
                    tab = Page(socket)
                    for domain in ("Page", "Runtime", "Log"):
                        await tab.call(f"{domain}.enable")
                    await tab.call("Page.navigate", url=url)
                    yield tab
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _port(file: Path) -> int:
    async with asyncio.timeout(TIMEOUT_S):
        while not (file.exists() and (text := file.read_text())):
            await asyncio.sleep(0.05)
    return int(text.splitlines()[0])
