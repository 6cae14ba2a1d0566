"""Families of models, built small from their configurations: results, loss, gradients, texts."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from tests.libraries.model_cases import DEVICE, KINDS, Pair, families

LIBRARY = "transformers"


def _left_out() -> dict[tuple[str, str], dict[str, str]]:
    """What transformers or PyTorch's CPU does not give, or where equality is not to be had: see the file."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for line in Path(__file__).with_name("left_out.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            kind, family, part, reason = (word.strip() for word in line.split("|", 3))
            found.setdefault((kind, family), {})[part] = reason
    return found


LEFT_OUT = _left_out()
ALL = [(kind, family) for kind in KINDS for family in families(kind)]
CASES = [case for case in ALL if "all" not in LEFT_OUT.get(case, {})]
PARTS: dict[str, Callable[[Pair], None]] = {
    "forward": Pair.forward,
    "loss": Pair.loss,
    "backward": Pair.backward,
    "generate": Pair.generate,
    "without a cache": lambda pair: pair.generate(use_cache=False),
    "bf16": Pair.bf16,
}
WRITING = ("generate", "without a cache")


@pytest.mark.parametrize(("kind", "family"), CASES)
def test_a_family_gives_what_it_gives_on_the_host(kind: str, family: str, record_property: Any) -> None:
    pair = Pair(kind, family)
    for part, check in PARTS.items():
        if part not in LEFT_OUT.get((kind, family), {}) and (part not in WRITING or pair.writes):
            check(pair)
            record_property(part, "equal")


def test_what_is_left_out_is_there() -> None:
    assert set(LEFT_OUT) <= set(ALL)


@pytest.fixture
def llama() -> Pair:
    pair = Pair("causal", "llama")
    _ = pair.device, pair.moved  # which take a seed of their own
    return pair


@pytest.mark.parametrize(
    "how",
    [
        {"cache_implementation": "static"},
        {"num_beams": 3},
        {"num_beams": 4, "num_return_sequences": 2, "length_penalty": 0.5},
        {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2},
        {"min_new_tokens": 4, "eos_token_id": 5},
    ],
    ids=str,
)
def test_texts_are_the_hosts(llama: Pair, how: dict[str, Any]) -> None:
    llama.generate(**how)


def test_a_draw_can_be_repeated(llama: Pair) -> None:
    def drawn() -> torch.Tensor:
        torch.manual_seed(3)
        return llama.text(
            llama.device, llama.moved, {"do_sample": True, "top_k": 5, "top_p": 0.9, "temperature": 0.7}
        )

    first = drawn()
    assert torch.equal(first, drawn())


def test_an_assistant_changes_nothing(llama: Pair) -> None:
    inputs = {"input_ids": llama.inputs["input_ids"][:1]}
    moved = {"input_ids": llama.moved["input_ids"][:1]}
    assistant = Pair("causal", "llama").device
    found = llama.text(llama.device, moved, {"assistant_model": assistant})
    assert torch.equal(found, llama.text(llama.host, inputs, {}))


ATTENTION = [
    *itertools.product(("llama", "gemma3_text", "qwen3", "mistral"), ("eager", "sdpa", "flex_attention")),
    ("gpt_oss", "flex_attention"),
]


@pytest.mark.parametrize(("family", "attention"), ATTENTION)
def test_ways_of_attention(family: str, attention: str) -> None:
    pair = Pair("causal", family)
    _ = pair.wanted
    pair.device.set_attn_implementation(attention)
    pair.forward()
    pair.backward()


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        ("causal", "llama"),
        ("causal", "mixtral"),
        ("encoder", "bert"),
        ("encoder-decoder", "t5"),
        ("vision", "vit"),
    ],
)
def test_compiled_models_give_the_same(kind: str, family: str) -> None:
    torch.compiler.reset()
    pair = Pair(kind, family)
    pair.found = torch.compile(pair.device)(**pair.moved)
    pair.forward()
    pair.backward()


@pytest.mark.parametrize("family", ["llama", "qwen3_moe", "mamba"])
def test_saved_models_load_onto_the_device(family: str, tmp_path: Path) -> None:
    pair = Pair("causal", family)
    pair.host.save_pretrained(tmp_path)
    pair.device = type(pair.host).from_pretrained(tmp_path, device_map=DEVICE).eval()
    assert {p.device.type for p in pair.device.parameters()} == {DEVICE}
    pair.forward()


@pytest.mark.parametrize(
    ("kind", "family"), [("causal", "llama"), ("encoder", "bert"), ("encoder-decoder", "t5")]
)
def test_the_trainer_trains_as_on_the_host(kind: str, family: str, tmp_path: Path) -> None:
    pair = Pair(kind, family)
    rows = [{name: value[i] for name, value in pair.inputs.items()} for i in range(2)] * 2

    def loss(cpu: bool) -> float:
        arguments = transformers.TrainingArguments(
            str(tmp_path), max_steps=2, per_device_train_batch_size=2, report_to=[], use_cpu=cpu, save_strategy="no",
            disable_tqdm=True, learning_rate=1e-3,
        )  # fmt: skip
        trainer = transformers.Trainer(copy.deepcopy(pair.host), arguments, train_dataset=rows)
        found = trainer.train().training_loss
        assert (next(trainer.model.parameters()).device.type == "cpu") == cpu
        return found

    assert loss(cpu=False) == pytest.approx(loss(cpu=True), rel=1e-3)
