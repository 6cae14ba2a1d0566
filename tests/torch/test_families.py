"""A sample of the families of transformers that tests/libraries runs all of, one for each sort of computation."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
import hologram_torch  # noqa: F401
from tests.torch.test_models import transformers

transformers()
from tests.libraries.model_cases import Pair  # noqa: E402

SAMPLE = (
    ("causal", "mamba2"),
    ("causal", "rwkv"),
    ("causal", "deepseek_v3"),
    ("encoder-decoder", "t5"),
    ("speech", "wav2vec2"),
)


@pytest.mark.parametrize(("kind", "family"), SAMPLE)
def test_a_family_gives_what_it_gives_on_the_host(kind: str, family: str) -> None:
    pair = Pair(kind, family)
    pair.forward()
    pair.loss()
    pair.backward()
    if pair.writes:
        pair.generate()
