"""transformers: pipelines without a device, the Trainer in bf16, `generate` compiled, and GGUF files that are served.

Its devices are accelerate's for the rest. transformers (5.23) asks for each device by name. `torch.accelerator` in
`Pipeline.__init__`, `TrainingArguments._setup_devices`, `is_torch_bf16_gpu_available` and
`GenerationMixin._valid_auto_compile_criteria` would make this needless.
"""

from __future__ import annotations

import functools
from importlib import import_module
from types import ModuleType
from typing import Any

import torch

from hologram_torch import accelerator
from hologram_torch.door import door
from hologram_torch.loading import NAME, is_it


def pipelines(module: ModuleType) -> None:
    """A pipeline is on the accelerator unless told otherwise."""
    owner: Any = vars(module)["Pipeline"]
    made = owner.__init__

    @functools.wraps(made)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        asked = kwargs.get("device")
        mapped = getattr(self.model, "hf_device_map", None)
        number = next(iter(mapped.values())) if mapped and asked is None else asked
        numbered = number is None or (isinstance(number, int) and number >= 0)
        if self.device.type != "cpu" or not numbered or accelerator.current() is None:
            return
        self.device = torch.device(NAME, door.current_device() if number is None else number)
        if not mapped:
            self.model.to(self.device)

    owner.__init__ = init


def training_args(module: ModuleType) -> None:
    """The Trainer's device is accelerate's, and its arguments may ask for bf16."""
    own: Any = module
    arguments: Any = own.TrainingArguments
    settled = vars(arguments)["_setup_devices"].func
    available = own.is_torch_bf16_gpu_available

    @functools.wraps(available)
    def is_torch_bf16_gpu_available() -> bool:
        return available() or (accelerator.current() is not None and door.is_bf16_supported())

    @functools.wraps(settled)
    def _setup_devices(self: Any) -> torch.device:
        device = settled(self)
        chosen = self.distributed_state.device if self.distributed_state else device
        return chosen if device.type == "cpu" and chosen.type == NAME else device

    own.is_torch_bf16_gpu_available = is_torch_bf16_gpu_available
    arguments._setup_devices = functools.cached_property(_setup_devices)
    arguments._setup_devices.__set_name__(arguments, "_setup_devices")


def generation(module: ModuleType) -> None:
    """`generate` compiles a model on the device where `compile_config=` asks for it."""
    owner: Any = vars(module)["GenerationMixin"]
    valid = owner._valid_auto_compile_criteria

    @functools.wraps(valid)
    def _valid_auto_compile_criteria(self: Any, model_kwargs: Any, generation_config: Any) -> bool:
        asked = generation_config.compile_config
        if asked is not None and self.device.type == NAME:
            asked._compile_all_devices = True
        return valid(self, model_kwargs, generation_config)

    owner._valid_auto_compile_criteria = _valid_auto_compile_criteria


def serving(module: ModuleType) -> None:
    """`transformers serve` answers for FOLDER:FILE.gguf on the device, its weights packed.

    transformers (5.23) asks the configuration for a class, which those of most GGUF files do not name: on any device.
    """
    owner: Any = vars(module)["ModelManager"]
    loaded = owner._load_model

    @functools.wraps(loaded)
    def _load_model(self: Any, name: str, *args: Any, gguf_file: str | None = None, **kwargs: Any) -> Any:
        ours = is_it(self.device) or (self.device != "cpu" and accelerator.current() is not None)
        if gguf_file is None or not ours or self.quantization is not None:
            return loaded(self, name, *args, gguf_file=gguf_file, **kwargs)
        from transformers import AutoModelForCausalLM

        config: Any = import_module("hologram_torch.gguf").HologramGgufConfig
        folder, revision = name.split("@", 1)
        number = self.device if isinstance(self.device, int) else door.current_device()
        model: Any = AutoModelForCausalLM
        return model.from_pretrained(
            folder,
            revision=revision,
            gguf_file=gguf_file,
            quantization_config=config(),
            device_map=self.device if is_it(self.device) else f"{NAME}:{number}",
            dtype=torch.float32 if self.dtype in ("auto", None) else self.dtype,
            attn_implementation=self.attn_implementation,
            trust_remote_code=self.trust_remote_code,
        )

    owner._load_model = _load_model
