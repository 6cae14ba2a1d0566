"""Models of transformers from small configurations, on the host and on the device: what each gives, compared.

A case is a kind of model (a mapping of transformers' auto classes) and a family of it. `Pair` holds its model twice,
with the same random weights, and has a method for each thing compared; each raises AssertionError where they differ.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import transformers
from transformers.models.auto import modeling_auto

from tests.libraries.small_configs import VOCABULARY, small

DEVICE = "hologram"
KINDS = {
    "causal": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "encoder": "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "encoder-decoder": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "vision": "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    "detection": "MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES",
    "segmentation": "MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING_NAMES",
    "depth": "MODEL_FOR_DEPTH_ESTIMATION_MAPPING_NAMES",
    "video": "MODEL_FOR_VIDEO_CLASSIFICATION_MAPPING_NAMES",
    "image-and-text": "MODEL_FOR_ZERO_SHOT_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    "speech": "MODEL_FOR_CTC_MAPPING_NAMES",
    "audio": "MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES",
    "speech-to-text": "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
    "image-text": "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "bare": "MODEL_MAPPING_NAMES",
}
TOKENS, NEW = 16, 6
TRAINING = ("reformer", "rwkv")  # have no derivatives otherwise


def families(kind: str) -> dict[str, str]:
    """The families of a kind, and the class of each."""
    names = getattr(modeling_auto, KINDS[kind])
    others = [getattr(modeling_auto, mapping) for mapping in KINDS.values()] if kind == "bare" else []
    known = {family for mapping in others if mapping is not names for family in mapping}
    return {
        family: name if isinstance(name, str) else name[0]
        for family, name in names.items()
        if family not in known
    }


def configured(family: str, of: Any) -> Any:
    """The configuration that a class takes: a family's own, or the part of it for text."""
    config = small(family)
    if isinstance(config, of.config_class):
        return config
    parts = (getattr(config, name) for name in config.sub_configs)
    return next((part for part in parts if isinstance(part, of.config_class)), config)


def leaves(value: Any) -> Iterator[torch.Tensor]:
    """All tensors of a result."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from leaves(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from leaves(part)


def same(found: torch.Tensor, wanted: torch.Tensor, what: str, scale: float | None = None) -> None:
    """Within 2e-4 of the largest number, or equal where numbers are whole."""
    found, wanted = found.detach().cpu(), wanted.detach()
    if not wanted.is_floating_point():
        assert torch.equal(found, wanted), what
        return
    finite = wanted[wanted.isfinite()]
    scale = scale if scale is not None else finite.abs().max().item() if finite.numel() else 1.0
    torch.testing.assert_close(
        found, wanted, atol=2e-4 * max(scale, 1e-6), rtol=1e-3, equal_nan=True, msg=lambda m: f"{what}: {m}"
    )


def _side(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)[-2:]


def _inputs(model: Any, kind: str) -> dict[str, Any]:
    """Arguments of a model's forward, from what it calls its main input."""
    config, draw = model.config, torch.Generator().manual_seed(1)
    accepted = inspect.signature(model.forward).parameters
    name = model.main_input_name
    vocabulary = min(getattr(config.get_text_config(), "vocab_size", None) or VOCABULARY, 60)
    tokens = torch.randint(3, vocabulary, (2, TOKENS), generator=draw)
    given: dict[str, Any] = {}
    if name == "pixel_values":
        side = _side(getattr(config, "image_size", None) or 64)
        shape = (2, getattr(config, "num_channels", 3), *side)
        if kind == "video" and "num_frames" in vars(config):
            shape = (2, config.num_frames, *shape[1:])
        given[name] = torch.randn(shape, generator=draw)
    elif name == "input_values" and "num_mel_bins" in vars(config):
        given[name] = torch.randn((2, config.max_length, config.num_mel_bins), generator=draw)
    elif name in ("input_values", "input_features") and name in accepted:
        shape = (2, 4000)
        if name == "input_features":
            part = getattr(config, "encoder_config", config)
            bins = next(
                (
                    getattr(c, n)
                    for c in (config, part)
                    for n in ("num_mel_bins", "feature_projection_input_dim", "input_feat_per_channel")
                    if getattr(c, n, None)
                ),
                80,
            )
            frames = 2 * config.max_source_positions if config.model_type == "whisper" else 64
            shape = (2, bins, frames) if config.model_type == "whisper" else (2, frames, bins)
        given[name] = torch.randn(shape, generator=draw)
        if name == "input_features" and "attention_mask" in accepted:
            given["attention_mask"] = torch.ones(shape[:2], dtype=torch.long)
    else:
        given["input_ids"] = tokens
    if name == "inputs":
        given = (
            {"inputs": tokens}
            if kind != "vision"
            else {"inputs": torch.randn((2, 3, 64, 64), generator=draw)}
        )
    if kind == "image-and-text":
        side = _side(getattr(config.vision_config, "image_size", 64))
        given = {
            "input_ids": tokens,
            "pixel_values": torch.randn((2, 3, *side), generator=draw),
            "return_loss": True,
        }
        given = {k: v for k, v in given.items() if k in accepted}
    elif "labels" in accepted and kind not in ("detection", "segmentation", "depth"):
        if kind in ("vision", "video", "audio"):
            given["labels"] = torch.tensor([0, 1])
        elif kind == "speech" or config.is_encoder_decoder:
            given["labels"] = torch.randint(3, vocabulary, (2, NEW), generator=draw)
        elif kind != "bare":
            given["labels"] = tokens
    return given


@dataclass
class Pair:
    """A model twice: on the host, and with the same weights on the device."""

    kind: str
    family: str

    @cached_property
    def host(self) -> Any:
        torch.manual_seed(0)
        of = getattr(transformers, families(self.kind)[self.family])
        model = of(configured(self.family, of)).train(self.family in TRAINING)
        for settings in (model.config, getattr(model, "generation_config", None)):
            if settings is not None and model.config.is_encoder_decoder:
                for name, token in (("decoder_start_token_id", 2), ("pad_token_id", 0)):
                    if getattr(settings, name, None) is None:
                        setattr(settings, name, token)
        with torch.no_grad():
            for p in model.parameters():
                if not p.any():  # routers of zeros would choose among equals
                    p.normal_(0, 0.02)
        size = sum(p.numel() for p in model.parameters())
        assert size < 20_000_000, f"{size} parameters are not small"
        return model

    @cached_property
    def device(self) -> Any:
        return copy.deepcopy(self.host).to(DEVICE)

    @cached_property
    def inputs(self) -> dict[str, Any]:
        return _inputs(self.host, self.kind)

    @cached_property
    def moved(self) -> dict[str, Any]:
        return {k: v.to(DEVICE) if isinstance(v, torch.Tensor) else v for k, v in self.inputs.items()}

    @cached_property
    def wanted(self) -> Any:
        """The host's result, after its backward pass."""
        _ = self.device  # copied before the host's model keeps results of its own
        torch.manual_seed(0)
        result = self.host(**self.inputs)
        self.loss_of(result).backward()
        return result

    @cached_property
    def found(self) -> Any:
        torch.manual_seed(0)
        return self.device(**self.moved)

    @staticmethod
    def loss_of(result: Any) -> torch.Tensor:
        loss = getattr(result, "loss", None)
        if loss is not None:
            return loss.float().sum()
        floats = [x.float().flatten() for x in leaves(result) if x.is_floating_point() and x.requires_grad]
        ramps = [torch.arange(x.numel()).sin().to(x.device) for x in floats]
        return torch.stack(
            [x @ ramp / len(ramp) for x, ramp in zip(floats, ramps, strict=True) if x.numel()]
        ).sum()

    def forward(self) -> None:
        wanted, found = list(leaves(self.wanted)), list(leaves(self.found))
        assert [(x.shape, x.dtype) for x in found] == [(x.shape, x.dtype) for x in wanted]
        for i, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
            same(ours, theirs, f"result {i}")

    def loss(self) -> None:
        same(self.loss_of(self.found), self.loss_of(self.wanted), "loss")

    def backward(self) -> None:
        self.loss_of(self.found).backward()
        _ = self.wanted
        largest = max(
            p.grad.abs().max().item() for p in self.host.parameters() if p.grad is not None and p.numel()
        )
        for (name, theirs), ours in zip(self.host.named_parameters(), self.device.parameters(), strict=True):
            assert (ours.grad is None) == (theirs.grad is None), name
            if theirs.grad is not None and theirs.numel():
                same(ours.grad, theirs.grad, name, max(theirs.grad.abs().max().item(), largest * 0.1))

    @property
    def writes(self) -> bool:
        return isinstance(self.host, transformers.GenerationMixin) and self.kind != "bare"

    @staticmethod
    def text(model: Any, inputs: dict[str, Any], how: dict[str, Any]) -> torch.Tensor:
        how = {"max_new_tokens": NEW, "do_sample": False, "pad_token_id": 0, "eos_token_id": None, **how}
        given = {k: v for k, v in inputs.items() if k != "labels"}
        if "input_ids" in given:
            given["attention_mask"] = torch.ones_like(given["input_ids"])
        return next(leaves(model.generate(**given, **how))).cpu()

    def generate(self, **how: Any) -> None:
        """Equal texts, greedy unless told otherwise."""
        assert torch.equal(self.text(self.device, self.moved, how), self.text(self.host, self.inputs, how))

    @staticmethod
    def narrowed(model: Any, inputs: dict[str, Any]) -> list[torch.Tensor]:
        """What a copy of a model in bf16 gives."""
        given = {
            k: v.bfloat16() if isinstance(v, torch.Tensor) and v.is_floating_point() else v
            for k, v in inputs.items()
        }
        with torch.no_grad():
            result = copy.deepcopy(model).bfloat16()(**given)
        return [x.cpu() for x in leaves(result) if x.is_floating_point()]

    def bf16(self) -> None:
        """Results in bf16 within 2 % in the median: experts and top-k may choose otherwise in some rows."""
        found, wanted = self.narrowed(self.device, self.moved), self.narrowed(self.host, self.inputs)
        for i, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
            assert ours.dtype == theirs.dtype, (i, ours.dtype, theirs.dtype)
            error, size = (ours.float() - theirs.float()).abs(), theirs.float().abs()
            assert error.nanmedian() <= 0.02 * size.nanmedian() + 2e-3, (
                i,
                error.nanmedian(),
                size.nanmedian(),
            )
