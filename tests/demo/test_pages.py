"""The pages, as somebody uses them: digits are drawn and recognised, a language model is loaded, asked, and answers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import hologram as hg
from hologram.demo import digits, drawn
from hologram.llm.page import write_page
from hologram.llm.runner import Runner
from tests.frontend.saved.pages import Site, needs_browser, swiftshader
from tests.llm import models

PACKED = models.FAMILIES["packed"]
SAMPLES = 1000
ASKED = ("the heat of the other", "there & then, 1984! (she)")
TEXTS = (
    "the  heat's\n\n 12 3",
    "<s>user: h\u00e9 \u2603 \U0001f600</s>the",
    "\t theATHE \u0661\u0662 a\u00a0b\ufeffc\u0085d",
    "",
)

DRIVE = """<body><script type="module">
const post = (name, body) => fetch(`/${name}`, { method: "POST", body });
const posted = (name, value) => post(name, JSON.stringify(value));
const until = async (holds) => { while (!holds()) await new Promise((resolve) => setTimeout(resolve, 20)); };
/** Opens a page in a frame, and gives its elements by id once it says something of how it stands. */
async function page(url) {
  const frame = document.body.appendChild(document.createElement("iframe"));
  frame.src = url;
  await until(() => frame.contentDocument?.getElementById("wrong"));
  const at = (id) => frame.contentDocument.getElementById(id);
  const settled = () => until(() => at("wrong").textContent || /^(Ready|Its weights)/.test(at("state").textContent));
  await settled();
  return { at, settled, window: frame.contentWindow };
}
/** Draws a line through places of a canvas, in shares of its sides. */
async function line(canvas, kind, ...places) {
  const frame = canvas.getBoundingClientRect();
  const types = ["pointerdown", ...places.slice(1).map(() => "pointermove"), "pointerup"];
  types.forEach((type, k) => {
    const [x, y] = places[Math.min(k, places.length - 1)];
    const where = { clientX: frame.left + x * frame.width, clientY: frame.top + y * frame.height, bubbles: true };
    canvas.dispatchEvent(new kind(type, where));
  });
}
async function recognised() {
  const { at, window } = await page("digits/index.html");
  await posted("ready", at("state").textContent);
  await line(at("drawing"), window.PointerEvent, [0.5, 0.1], [0.5, 0.9]);
  await until(() => at("answer").textContent);
  await posted("drawn", at("answer").textContent);
  at("clear").click();
  await until(() => !at("answer").textContent);
  const { load } = await import("./digits/model/model.js");
  const model = await load("digits/model");
  const images = new Float32Array(await (await fetch("images")).arrayBuffer());
  const size = model.inputs[0].bytes / 4;
  const answers = [];
  for (let k = 0; k < images.length; k += size) answers.push(model.run({ image: images.subarray(k, k + size) }));
  await post("odds", await new Blob((await Promise.all(answers)).map(({ odds }) => odds)).arrayBuffer());
}
async function asked(at, said) {
  for (const text of said) {
    at("text").value = text;
    at("send").click();
    await until(() => !at("send").disabled || at("wrong").textContent);
    if (at("wrong").textContent) throw new Error(at("wrong").textContent);
  }
  return Array.from(at("said").children, (item) => item.textContent);
}
async function picked({ at, settled, window }, bytes) {
  const given = new window.DataTransfer();
  given.items.add(new window.File([bytes], "model.gguf"));
  at("wrong").textContent = at("state").textContent = "";
  at("file").files = given.files;
  at("file").dispatchEvent(new window.Event("change"));
  await settled();
  return at("wrong").textContent;
}
async function answered() {
  const said = await (await fetch("asked.json")).json();
  const held = await page("chat/index.html");
  await posted("held", await asked(held.at, said.asked));
  const bytes = await (await fetch("chat/model.gguf")).arrayBuffer();
  const changed = bytes.slice();
  new Uint8Array(changed)[bytes.byteLength - 1] ^= 1;
  const own = await page("picked/index.html");
  await posted("nothing yet", own.at("state").textContent);
  await posted("short", await picked(own, bytes.slice(0, -9)));
  await posted("changed", await picked(own, changed));
  await posted("right", await picked(own, bytes));
  await posted("picked", await asked(own.at, said.asked));
  for (const name of ["no webgpu", "cut", "later"]) {
    await posted(name, (await page(`${encodeURIComponent(name)}/index.html`)).at("wrong").textContent);
  }
  const { opened } = await import("./chat/gguf.js");
  const { Tokenizer } = await import("./chat/tokenizer.js");
  const { described } = await import("./chat/chat.js");
  const { metadata } = await opened(new Blob([bytes]));
  const tokenizer = new Tokenizer(metadata, (await described("chat")).talk);
  await posted("tokens", said.texts.map((text) => tokenizer.encode(text)));
  const error = await opened(new Blob([bytes.slice(0, 999)])).catch(String);
  await posted("cut header", error);
}
try {
  await recognised();
  await answered();
} catch (error) {
  await post("error", String(error.stack));
}
await post("done", "");
</script>"""


# Python's answers, by WebGPU: one image a call, as in the page.
ODDS = """
import sys
import numpy as np
import hologram as hg
from hologram.demo import drawn
given = np.load(sys.argv[1])
with hg.Executor("webgpu") as ex:
    layers = [tuple(ex.tensor(given[f"{kind}{k}"]) for kind in ("weight", "bias")) for k in range(3)]
    odds = hg.jit(lambda image: drawn.odds(image, layers))
    found = [odds(ex.tensor(image[None])).to_numpy() for image in given["images"]]
np.save(sys.argv[2], np.concatenate(found))
"""


@pytest.fixture(scope="module")
def ex() -> Iterator[hg.Executor]:
    with hg.Executor(backend="cpu") as executor:
        yield executor


def with_digits(site: Path, ex: hg.Executor) -> np.ndarray:
    """A page of digits, a little trained, and samples for it; their odds on the page's kind of adapter."""
    features, labels = load_digits(return_X_y=True)
    layers = drawn.train(digits.split(features / 16, labels), ex, steps=100)
    drawn.write_page(site / "digits", layers, ex, accuracy=0.5)
    images = (features[:SAMPLES] / 16).astype(np.float32)
    (site / "images").write_bytes(images.tobytes())
    arrays = {f"weight{k}": weight.to_numpy() for k, (weight, _) in enumerate(layers)}
    arrays |= {f"bias{k}": bias.to_numpy() for k, (_, bias) in enumerate(layers)}
    given, found = site.with_name("given.npz"), site.with_name("odds.npy")
    np.savez(given, images=images, **arrays)
    subprocess.run([sys.executable, "-c", ODDS, given, found], env=os.environ | swiftshader(), check=True)
    return np.load(found)


def with_chats(site: Path) -> None:
    """A page whose folder holds the model, one whose user picks it, and some where something is wrong."""
    models.write(site / "model.gguf", PACKED, seed=35)  # its answers are short
    write_page(site / "model.gguf", site / "chat", context=192)
    for name in ("picked", "no webgpu", "cut", "later"):
        shutil.copytree(site / "chat", site / name)
    about = json.loads((site / "chat" / "page.json").read_text())
    (site / "picked" / "page.json").write_text(json.dumps(about | {"file": None}))
    (site / "picked" / "model.gguf").unlink()
    page = (site / "no webgpu" / "index.html").read_text()
    without = '<script>Object.defineProperty(Navigator.prototype, "gpu", {get() {}})</script>'
    (site / "no webgpu" / "index.html").write_text(page.replace("<style>", f"{without}<style>"))
    whole = (site / "cut" / "model.gguf").read_bytes()
    (site / "cut" / "model.gguf").write_bytes(whole[: len(whole) // 2])
    for name in ("program.json", "software.json"):
        program = json.loads((site / "later" / "step" / name).read_text())
        (site / "later" / "step" / name).write_text(json.dumps(program | {"format": program["format"] + 1}))


@needs_browser
def test_pages_as_somebody_uses_them(ex: hg.Executor, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    wanted = with_digits(site, ex)
    with_chats(site)
    (site / "asked.json").write_text(json.dumps({"asked": ASKED, "texts": TEXTS}))
    (site / "index.html").write_text(DRIVE)
    posted = Site(site).opened(tmp_path / "profile")
    assert "error" not in posted, posted["error"].decode()
    odds = np.frombuffer(posted.pop("odds"), np.float32).reshape(wanted.shape)
    np.testing.assert_allclose(odds, wanted, atol=1e-6)
    assert (odds.argmax(axis=1) == wanted.argmax(axis=1)).all()
    said = {name: json.loads(body) for name, body in posted.items() if body}
    assert "KB. It knows 50.0 % of digits" in said["ready"]
    assert said["drawn"] in list("0123456789")
    runner = Runner(site / "model.gguf", ex)
    turns: list[dict[str, str]] = []
    for text in ASKED:
        turns.append({"role": "user", "content": text})
        turns.append({"role": "assistant", "content": "".join(runner.chat(turns, limit=128))})
    assert said["held"] == said["picked"] == [turn["content"] for turn in turns]
    assert said["nothing yet"].startswith("Its weights are a file of")
    assert said["right"] == ""
    assert "the model's file is cut short: it has" in said["short"]
    assert "the model's file is cut short: it has" in said["cut"]
    assert "this is not the file of" in said["changed"]
    assert "this browser has no WebGPU" in said["no webgpu"]
    assert "is needed, got" in said["later"]
    assert "cut short" in said["cut header"]
    assert said["tokens"] == [runner.tokenizer.encode(text) for text in TEXTS]


def test_what_no_page_holds_is_refused(tmp_path: Path) -> None:
    model = tmp_path / "model.gguf"
    models.write(model, PACKED)
    with pytest.raises(hg.ShapeError, match="a multiple of 64 up to 2048 tokens, got 100"):
        write_page(model, tmp_path / "page", context=100)
    models.write(model, models.FAMILIES["qwen2"])
    with pytest.raises(hg.UnsupportedOperation, match=r"qkv_bias.* is not one that a page loads"):
        write_page(model, tmp_path / "page", context=64)
    models.write(model, models.Family("llama", width=256, hidden=256, size=64, rotated=64, kind="Q5_0"))
    with pytest.raises(hg.UnsupportedOperation, match="is Q5_0, and a page reads F32, Q8_0"):
        write_page(model, tmp_path / "page", context=64)
    assert not (tmp_path / "page").exists()
