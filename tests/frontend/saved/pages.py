"""A browser for tests: a folder is served, a page runs the exported folders in it, and posts what they give."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

import hologram as hg
from hologram.frontend.saved.export import MODULE
from hologram.frontend.tree import leaves

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium is installed")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu-sandbox", "--enable-unsafe-webgpu",
    "--use-webgpu-adapter=swiftshader",
)  # fmt: skip
TIMEOUT_S = 120

PAGE = """<script type="module">
import { load } from "./model.js";
const post = (name, body) => fetch(`/${name}`, { method: "POST", body });
for (const name of await (await fetch("cases.json")).json()) {
  try {
    const model = await load(name);
    const given = {};
    for (const { name: input, dtype } of model.inputs) {
      const bytes = await (await fetch(`${name}/arguments/${input}`)).arrayBuffer();
      const kind = { f32: Float32Array, i64: BigInt64Array, u64: BigUint64Array, u8: Uint8Array, i8: Int8Array,
                     f16: Uint16Array, u32: Uint32Array, i32: Int32Array }[dtype];
      given[input] = new kind(bytes);
    }
    await model.run(given);
    for (const [output, array] of Object.entries(await model.run(given))) await post(`${name}/${output}`, array);
    const error = await model.run({}).catch((e) => String(e));
    await post(`${name}/without`, model.inputs.length ? error : "");
  } catch (error) {
    await post(`${name}/error`, String(error));
  }
}
await post("done", "");
</script>"""


def swiftshader() -> dict[str, str]:
    """What the environment needs for Python to have the browser's adapter; nothing where its file is not found."""
    folders = (Path(str(BROWSER)).resolve().parent, Path("/usr/lib/chromium"))
    found = next((f for folder in folders if (f := folder / "vk_swiftshader_icd.json").exists()), None)
    return {} if found is None else {"VK_DRIVER_FILES": str(found), "VK_ICD_FILENAMES": str(found)}


class Site:
    """A folder that is served, what pages post to it, and whether one is done."""

    def __init__(self, folder: Path) -> None:
        self.posted: dict[str, bytes] = {}
        self.done = threading.Event()
        site = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def do_POST(self) -> None:
                site.posted[unquote(self.path[1:])] = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(204)
                self.end_headers()
                if self.path == "/done":
                    site.done.set()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(Handler, directory=str(folder))
        )
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def opened(self, profile: Path, page: str = "", timeout_s: float = TIMEOUT_S) -> dict[str, bytes]:
        """What a page posts until it is done."""
        address = f"http://127.0.0.1:{self.server.server_port}/{page}"
        command = [str(BROWSER), *FLAGS, f"--user-data-dir={profile}", address]
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            assert self.done.wait(timeout_s), f"the page posted {sorted(self.posted)} and no end"
        finally:
            browser.terminate()
            browser.wait()
            self.server.shutdown()
            self.server.server_close()
        return self.posted


def browsed(site: Path, names: Sequence[str], profile: Path) -> dict[str, bytes]:
    """What a page posts of the folders of these names: `name/output` the elements, `name/error` what went wrong."""
    (site / "index.html").write_text(PAGE)
    (site / "cases.json").write_text(json.dumps(names))
    shutil.copyfile(MODULE / "model.js", site / "model.js")
    return Site(site).opened(profile)


def with_arguments(folder: Path, args: Any) -> dict[str, Any]:
    """Puts the arguments of a call beside an exported program; gives what program.json says."""
    program = json.loads((folder / "program.json").read_text())
    (folder / "arguments").mkdir()
    tensors = [x for x in leaves(args) if isinstance(x, hg.Tensor)]
    for described, x in zip(program["inputs"], tensors, strict=True):
        (folder / "arguments" / described["name"]).write_bytes(x.to_numpy().tobytes())
    return program
