"""`SentenceTransformer()` without a device: `encode`, similarity, training with its Trainer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

library: Any = pytest.importorskip("sentence_transformers")
from sentence_transformers.sentence_transformer import losses, modules  # noqa: E402
from transformers import BertConfig, BertModel, BertTokenizerFast  # noqa: E402

LIBRARY = "sentence-transformers"
TEXTS = ["the sun is warm", "a cold night", "the warm sun", "night and cold"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers with random weights and a vocabulary of these words."""
    path = tmp_path_factory.mktemp("bert")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted({w for t in TEXTS for w in t.split()})]
    (path / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(str(path / "vocab.txt")).save_pretrained(path)
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=len(words), **sizes)).save_pretrained(path)
    return path


def model(folder: Path, **arguments: Any) -> Any:
    transformer = modules.Transformer(str(folder))
    pooling = modules.Pooling(32)
    return library.SentenceTransformer(modules=[transformer, pooling], **arguments)


def test_encodes_on_the_device(folder: Path) -> None:
    ours, host = model(folder), model(folder, device="cpu")
    assert (ours.device.type, host.device.type) == ("hologram", "cpu")
    found, wanted = ours.encode(TEXTS), host.encode(TEXTS)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    near = ours.similarity(ours.encode(TEXTS, convert_to_tensor=True), torch.tensor(wanted).to("hologram"))
    assert near.argmax(1).tolist() == [0, 1, 2, 3]


def test_trains(folder: Path, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    trained = model(folder)
    before = trained.encode(TEXTS)
    pairs = datasets.Dataset.from_dict({"anchor": TEXTS * 4, "positive": TEXTS[::-1] * 4})
    arguments = library.SentenceTransformerTrainingArguments(
        str(tmp_path), num_train_epochs=1, per_device_train_batch_size=4, report_to=[], save_strategy="no"
    )
    loss = losses.MultipleNegativesRankingLoss(trained)
    library.SentenceTransformerTrainer(trained, arguments, pairs, loss=loss).train()
    assert trained.device.type == "hologram"
    assert not np.allclose(before, trained.encode(TEXTS))
