"""What a step costs in a page beside Python, both on SwiftShader: the two pages of `hologram demo page`.

    python bench/pages.py [--turns 3] [--digits]

The browser (headless Chromium) and Python take turns; each row is the median of all calls, each with its result read,
then how long the page took from opening to its first answer, and the bytes that it loaded. `nothing` is what no step
can be quicker than: 16 bytes are copied on the device, and read. `--digits` leaves the language model out.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import wgpu

import hologram as hg
from hologram.demo import drawn, gallery
from hologram.llm.architecture import architecture
from hologram.llm.gguf import GGUF
from hologram.llm.page import Noting, Resident, write_page

SWIFTSHADER = "/usr/lib/chromium/vk_swiftshader_icd.json"
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu-sandbox", "--enable-unsafe-webgpu",
    "--use-webgpu-adapter=swiftshader",
)  # fmt: skip
CONTEXT, PIECE, TOKEN = 512, 16, 504
CALLS = {"nothing": 200, "digit": 200, "token": 5, "prompt": 2}  # after two that warm up
QUESTION = "What is the capital of France?"

PAGE = """<script type="module">
import { load } from "./digits/model/model.js";
const CALLS = %s;
async function timed(count, call) {
  const times = [];
  for (let k = 0; k < count + 2; k++) {
    const began = performance.now();
    await call(k);
    if (k > 1) times.push(performance.now() - began);
  }
  return times;
}
const found = { first: {} };
async function recognised() {
  const began = performance.now();
  const digits = await load("digits/model");
  const image = new Float32Array(64).fill(0.5);
  await digits.run({ image });
  found.first.digit = performance.now() - began;
  found.digit = await timed(CALLS.digit, () => digits.run({ image }));
  const { device, buffers } = digits;
  const to = device.createBuffer({ size: 16, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
  found.nothing = await timed(CALLS.nothing, async () => {
    const encoder = device.createCommandEncoder();
    encoder.copyBufferToBuffer(buffers[0], 0, to, 0, 16);
    device.queue.submit([encoder.finish()]);
    await to.mapAsync(GPUMapMode.READ);
    to.unmap();
  });
}
async function talked() {
  const { open } = await import("./chat/chat.js");
  const began = performance.now();
  const chat = await open("chat");
  found.opened = performance.now() - began;
  for await (const text of chat.answer(%s)) {
    found.first.token ??= performance.now() - began;
    found.said = (found.said ?? "") + text;
  }
  chat.known = 0;
  const tokens = Int32Array.of(%d);
  found.token = await timed(CALLS.token, (k) => chat.step.run({ tokens, known: Int32Array.of(k) }));
  const many = new Int32Array(%d).fill(%d);
  found.prompt = await timed(CALLS.prompt, async (k) => {
    await chat.prompt.run({ tokens: many, known: Int32Array.of(k) });
    await chat.prompt.device.queue.onSubmittedWorkDone();
  });
}
try {
  await recognised();
  if (CALLS.token) await talked();
  const all = performance.getEntriesByType("resource");
  found.loaded = Object.fromEntries(["digits", "chat"].map((name) =>
    [name, all.filter((e) => e.name.includes(`/${name}/`)).reduce((sum, e) => sum + e.decodedBodySize, 0)]));
} catch (error) {
  found.error = String(error.stack);
}
await fetch("/done", { method: "POST", body: JSON.stringify(found) });
</script>"""


def browsed(site: Path) -> dict[str, Any]:
    """What the page found out."""
    done, posted = threading.Event(), dict[str, Any]()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.update(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()
            done.set()

        def end_headers(self) -> None:  # with these a page's clock counts in steps of 5 us, otherwise of 100
            self.send_header("Cross-Origin-Opener-Policy", "same-origin")
            self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
            super().end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=str(site))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, *FLAGS, f"--user-data-dir={profile}", f"http://127.0.0.1:{server.server_port}/"]
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            if not done.wait(600):
                raise TimeoutError("the page gave nothing for 10 minutes")
        finally:
            running.terminate()
            running.wait()
            server.shutdown()
    if "error" in posted:
        raise RuntimeError(posted["error"])
    return posted


def timed(count: int, call: Callable[[int], Any]) -> list[float]:
    times = []
    for k in range(count + 2):
        began = time.perf_counter()
        call(k)
        if k > 1:
            times.append(1000 * (time.perf_counter() - began))
    return times


def here(names: Sequence[str]) -> dict[str, list[float]]:
    """Milliseconds of the same steps in Python, jitted."""
    makers = {"nothing": nothing, "digit": digit, "token": chat}
    calls = dict(item for name in names if name in makers for item in makers[name]().items())
    return {name: timed(CALLS[name], call) for name, call in calls.items()}


def nothing() -> dict[str, Callable[[int], Any]]:
    adapter = next(a for a in wgpu.gpu.enumerate_adapters_sync() if "SwiftShader" in a.info["device"])
    device = adapter.request_device_sync()
    usage = wgpu.BufferUsage
    source = device.create_buffer(size=16, usage=usage.COPY_SRC | usage.STORAGE)
    to = device.create_buffer(size=16, usage=usage.MAP_READ | usage.COPY_DST)

    def call(_: int) -> None:
        encoder = device.create_command_encoder()
        encoder.copy_buffer_to_buffer(source, 0, to, 0, 16)
        device.queue.submit([encoder.finish()])
        to.map_sync(wgpu.MapMode.READ)
        to.unmap()

    return {"nothing": call}


def digit() -> dict[str, Callable[[int], Any]]:
    ex = hg.Executor("webgpu", device="SwiftShader")
    layers = [tuple(map(ex.tensor, layer)) for layer in drawn.start()]
    classify, image = hg.jit(lambda image: drawn.odds(image, layers)), np.full((1, 64), 0.5, np.float32)
    return {"digit": lambda _: classify(ex.tensor(image)).to_numpy()}


def chat() -> dict[str, Callable[[int], Any]]:
    ex = hg.Executor("webgpu", device="SwiftShader")
    model = GGUF(weights())
    a = architecture(model)
    own = Noting(model, a, ex).weights()
    tree = {"embedding": own.embedding, "blocks": list(own.blocks), "norm": own.norm}
    places = (a.key_heads, CONTEXT, a.head_size)
    cache = [tuple(ex.zeros(places) for _ in range(2)) for _ in range(a.layers)]
    resident = Resident(a, own, ex, CONTEXT)
    step, read = hg.jit(resident.step, donate=3), hg.jit(resident.read, donate=3)

    def token(k: int) -> None:
        nonlocal cache
        made = step(
            ex.tensor(np.array([[TOKEN]], np.int32)), ex.tensor(np.array([[k]], np.int32)), tree, cache
        )
        cache = made["cache"]
        made["token"].to_numpy()

    def prompt(k: int) -> None:
        nonlocal cache
        tokens = ex.tensor(np.full((1, PIECE), TOKEN, np.int32))
        cache = read(tokens, ex.tensor(np.array([[k]], np.int32)), tree, cache)["cache"]
        ex.synchronize()

    return {"token": token, "prompt": prompt}


def weights() -> Path:
    return gallery.load(gallery.demos()["llm"]).weights()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--digits", action="store_true")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        print(json.dumps(here(arguments.here.split(","))))
        return
    names = ("nothing", "digit") if arguments.digits else tuple(CALLS)
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder)
        with hg.Executor("cpu") as ex:
            drawn.write_page(site / "digits", [tuple(map(ex.tensor, x)) for x in drawn.start()], ex, 0.0)
        if "token" in names:
            write_page(weights(), site / "chat", CONTEXT, piece=PIECE)
        (site / "index.html").write_text(
            PAGE
            % (json.dumps({name: CALLS[name] for name in names}), json.dumps(QUESTION), TOKEN, PIECE, TOKEN)
        )
        environment = os.environ | {"VK_DRIVER_FILES": SWIFTSHADER, "VK_ICD_FILENAMES": SWIFTSHADER}
        command = [sys.executable, __file__, "--here", ",".join(names)]
        pages, ours = [], []
        for _ in range(arguments.turns):
            done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
            ours.append(json.loads(done.stdout.splitlines()[-1]))
            pages.append(browsed(site))
    for name in names:
        page, python = (statistics.median(x for turn in turns for x in turn[name]) for turns in (pages, ours))
        print(f"{name:8} page {page:9.2f} ms, Python {python:9.2f} ms, {page / python:5.2f}")
    for name, folder in (("digit", "digits"), ("token", "chat")):
        if name in names:
            first = statistics.median(page["first"][name] for page in pages)
            print(f"first {name}: {first / 1000:.1f} s, {pages[0]['loaded'][folder] / 1e6:.2f} MB")
    if "token" in names:
        opened = statistics.median(page["opened"] for page in pages)
        print(f"opened: {opened / 1000:.1f} s; it says {pages[0]['said']!r}")


if __name__ == "__main__":
    main()
