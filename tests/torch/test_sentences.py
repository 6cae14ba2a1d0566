"""Embeddings of sentences with real weights: what the weights' own package computes, in NumPy."""

from __future__ import annotations

import logging
import sys
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if (3, 11) <= sys.version_info < (3, 14):
    pytest.importorskip("wordllama")
from tests.torch.test_training import example  # noqa: E402


@pytest.mark.skipif(
    not (3, 11) <= sys.version_info < (3, 14), reason="the weights' package is not for this Python"
)
def test_sentences_are_those_of_the_weights_own_package() -> None:
    from wordllama.inference import WordLlamaInference

    logging.getLogger().setLevel(logging.WARNING)  # importing it turns every library's chatter on
    module = example("torch_sentences")
    model: Any = module.load()
    theirs = WordLlamaInference(model.vectors.weight.cpu().numpy(), model.tokenizer)
    expected = theirs.embed(module.SENTENCES, norm=True)
    model.tokenizer.no_padding()
    found = model(module.SENTENCES)
    np.testing.assert_allclose(found.cpu().numpy(), expected, atol=1e-6)
    nearest = (found @ found.T).fill_diagonal_(-1.0).argmax(1)
    assert nearest.tolist() == [1, 0, 3, 2, 5, 4]
