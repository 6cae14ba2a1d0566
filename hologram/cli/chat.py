"""`hologram chat MODEL.gguf`: a conversation with a language model, or one answer."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import hologram as hg
from hologram.cli.display import BACKENDS, errors, output, print_json
from hologram.foundation.errors import ShapeError
from hologram.llm.runner import Runner, Speed
from hologram.llm.sampling import Sampling
from hologram.runtime import selector

LEAVE = ("/exit", "/quit")
COPIED_BYTES = 64 << 20  # to measure the memory's bandwidth


def chat(
    model: Annotated[Path, typer.Argument(help="A GGUF file.", exists=True, dir_okay=False)],
    prompt: Annotated[str | None, typer.Option(help="Answer this and leave.")] = None,
    system: Annotated[
        str | None, typer.Option(help="What the model is told before anything is said.")
    ] = None,
    backend: Annotated[str, typer.Option(help=f"{BACKENDS}.")] = "auto",
    device: Annotated[str | None, typer.Option(help="A device's number, or part of its name.")] = None,
    context: Annotated[
        int | None, typer.Option(help="Tokens of a conversation; the model's own unless given.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Tokens of an answer.")] = None,
    temperature: Annotated[float, typer.Option(help="0 takes the likeliest token.")] = 0.0,
    top_k: Annotated[int, typer.Option(help="How many likely tokens count; 0: all.")] = 40,
    top_p: Annotated[
        float, typer.Option(help="The probability that tokens which count reach together.")
    ] = 0.95,
    seed: Annotated[int, typer.Option(help="Of the random numbers.")] = 0,
    stop: Annotated[list[str] | None, typer.Option(help="A text that ends answers; may be repeated.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print an answer as JSON, with times.")] = False,
) -> None:
    """Talk with a language model; its weights stay packed as they are in the file."""
    if as_json and prompt is None:
        raise typer.BadParameter("--json goes with --prompt")
    if prompt is not None and not prompt.strip():
        raise typer.BadParameter("--prompt must say something, it is empty")
    sampling = Sampling(temperature, top_k, top_p, seed)
    with hg.Executor(backend=backend, device=selector.number_or_name(device)) as executor:
        with errors.status(f"Loading {model.name}"):
            runner = Runner(model, executor, context)
            copied = bandwidth(executor)
        where = f"{executor.backend} on {executor.device.info.name}"
        messages = [] if system is None else [{"role": "system", "content": system}]
        if not as_json:
            errors.print(
                f"{model.name}: {runner.architecture.family}, {where}", markup=False, highlight=False
            )
        while (said := prompt if prompt is not None else _asked()) is not None:
            messages.append({"role": "user", "content": said})
            try:
                pieces = runner.chat(messages, sampling, limit=limit, stop=stop or ())
            except ShapeError as error:
                if prompt is not None:
                    raise
                errors.print(str(error), markup=False, highlight=False)
                messages.pop()
                continue
            answer = ""
            for piece in pieces:
                answer += piece
                if not as_json:
                    output.print(piece, end="", markup=False, highlight=False, soft_wrap=True)
            messages.append({"role": "assistant", "content": answer})
            if as_json:
                share = runner.speed.share(copied)
                print_json(
                    {"answer": answer, "where": where, **asdict(runner.speed), "bandwidth_share": share}
                )
            else:
                output.print()
                errors.print(told(runner.speed, copied), style="dim", markup=False, highlight=False)
            if prompt is not None:
                return


def _asked() -> str | None:
    """What the user says next; nothing at the end."""
    while True:
        try:
            said = output.input("[bold]> [/]").strip()
        except (EOFError, KeyboardInterrupt):
            return None
        if said:
            return None if said in LEAVE else said


def told(speed: Speed, copied: float) -> str:
    """How fast an answer was, in a line."""
    share = f"{speed.share(copied):.0%} of the {copied / 1e9:.1f} GB/s that copies reach"
    prefill = f"prompt {speed.prefill_tokens} tokens at {speed.prefill:.1f} a second"
    return f"{prefill}; answer {speed.decode_tokens} at {speed.decode:.1f} ({share})"


def bandwidth(executor: hg.Executor) -> float:
    """Bytes a second that a device's memory reads and writes, by the best of a few copies."""
    source = executor.zeros(COPIED_BYTES // 4)
    target = source.clone()
    best = float("inf")
    for _ in range(5):
        executor.synchronize()
        start = time.perf_counter()
        executor.copy(source, target)
        executor.synchronize()
        best = min(best, time.perf_counter() - start)
    return 2 * COPIED_BYTES / best
