"""transformers' models from GGUF files, their weights packed as they lie there.

    model = AutoModelForCausalLM.from_pretrained(
        folder, gguf_file="model.gguf", quantization_config=HologramGgufConfig(), device_map="hologram"
    )

Which tensors of a file are a model's linears and embeddings, and what must be done to them, transformers says; see
docs/design/pytorch.md.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from gguf import GGMLQuantizationType, dequantize
from torch import nn
from transformers import modeling_gguf_pytorch_utils as theirs
from transformers.integrations.gguf.utils import get_gguf_conversion_mapping, get_gguf_plan
from transformers.pytorch_utils import Conv1D
from transformers.quantizers import auto
from transformers.quantizers.quantizer_gguf import GgufHfQuantizer
from transformers.utils.quantization_config import GgufConfig, QuantizationMethod

from hologram.llm.gguf import GGUF
from hologram.opset.packed.gguf import KINDS, planes_of_gguf
from hologram_torch.packed import KEEPERS, PackedWeight, keep_packed, keeper_of
from hologram_torch.tensors.dtypes import host_tensor
from hologram_torch.tensors.transfer import shared

NAME = "hologram_gguf"
HOST = torch.device("cpu")


class PackedConv1D(PackedWeight, Conv1D):  # pyright: ignore[reportIncompatibleVariableOverride]
    """transformers' Conv1D, a linear layer whose weight is turned round, with a packed one."""

    @property
    def weight(self) -> torch.Tensor:
        return super().weight.mT

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x, self.bias)


KEEPERS[Conv1D] = PackedConv1D


class HologramGgufConfig(GgufConfig):
    """Asks for weights that stay packed; `from_pretrained(gguf_file=...)` names the file."""

    def __init__(self, gguf_file: str | None = None, **kwargs: Any) -> None:
        super().__init__(gguf_file)
        self.quant_method: Any = NAME


class HologramGgufQuantizer(GgufHfQuantizer):
    """Loads a GGUF file by transformers' own rules: weights of linears and embeddings as planes, all else as floats."""

    file: GGUF

    def __init__(self, quantization_config: Any, **kwargs: Any) -> None:
        # transformers looks a quantiser up by this name, then asks whether it is its own, which may read such files.
        own = copy.copy(quantization_config)
        own.quant_method = QuantizationMethod.GGUF
        super().__init__(own, **kwargs)
        self.device: torch.device = HOST
        self.kept: dict[
            str, np.ndarray | None
        ] = {}  # by the file's names: the order of rows, None as they are
        self.names: dict[str, str] = {}  # the model's names of weights by the file's

    def validate_environment(self, *args: Any, **kwargs: Any) -> None:
        """Nothing is needed that is not here."""

    def update_device_map(self, device_map: Any) -> Any:
        places = set((device_map or {"": HOST}).values())
        if len(places) > 1 or "disk" in places:
            raise ValueError(
                f"hologram: a model from a GGUF file lies on one device, got device_map={device_map}"
            )
        self.device = torch.device(*places)
        return device_map

    def read_header(self, gguf_file: str) -> None:
        self.file = GGUF(gguf_file)
        self.architecture: str = self.file.get("general.architecture", str)
        super().read_header(gguf_file)  # which sets `supported`: whether conversions of weights are a table

    def _process_model_before_weight_loading(self, model: Any, **kwargs: Any) -> None:
        """Finds what can stay packed, and puts its bytes, or nothing, in its place meanwhile."""
        if self.supported:
            self._plan_conversions(model)
            return
        processor = theirs.TENSOR_PROCESSORS.get(self.architecture, theirs.TensorProcessor)
        self.processor = processor(config=model.config.to_dict())
        self.names = theirs.get_gguf_hf_weights_map(model, self.processor)
        orders: dict[Any, Any] = {}  # by what names have in common
        for name, tensor in self.file.tensors.items():
            module = self._module(model, self.names.get(name, ""))
            if tensor.kind not in KINDS or len(tensor.shape) != 2 or module is None:
                continue
            like = re.sub(r"\d+", "", name), tensor.shape
            if like not in orders:
                orders[like] = self._order(name, tensor.shape, isinstance(module, Conv1D))
            if orders[like] is not False:
                self.kept[name] = orders[like]
                module.weight = nn.Parameter(torch.empty(0, device="meta"), requires_grad=False)

    def _plan_conversions(self, model: Any) -> None:
        """By the table: weights whose conversions move whole rows at most are loaded as rows of bytes."""
        self.mapping = get_gguf_conversion_mapping(self.architecture, model.config)
        self.quantized, packable, columns_moved = get_gguf_plan(self.header, self.mapping)
        for name in packable:
            module, kind = self._module(model, name), GGMLQuantizationType(self.quantized[name]).name
            if module is None or kind not in KINDS or name in columns_moved or isinstance(module, Conv1D):
                continue
            rows, columns = (int(n) for n in model.get_parameter(name).shape)
            shape = (rows, columns // KINDS[kind].size * KINDS[kind].nbytes)
            module.weight = nn.Parameter(
                torch.empty(shape, dtype=torch.uint8, device="meta"), requires_grad=False
            )
            self.packed_modules[name] = module

    def _module(self, model: Any, weight: str) -> nn.Module | None:
        """The module that a name of the model's is the weight of, if it can be packed there."""
        path, _, last = weight.rpartition(".")
        module = model.get_submodule(path) if last == "weight" else None
        return module if module is not None and keeper_of(module) is not None else None

    def _order(self, name: str, shape: Sequence[int], turned: bool) -> Any:
        """The order that transformers brings a tensor's rows to, None as they are, False if it does more than that.

        It is shown the number of each element's row, and then of its column.
        """
        rows, columns = np.ogrid[: shape[0], : shape[1]]
        found = []
        for numbers in (rows, columns):
            given = np.broadcast_to(numbers.astype(np.int32), shape)
            result = self.processor.process(
                given, name, tensor_key_mapping={}, parsed_parameters={"tensors": {}}
            )
            made = result.weights.T if turned else result.weights
            if result.name != name or made.dtype != np.int32 or made.shape != tuple(shape):
                return False
            found.append(made)
        order = found[0][:, 0].copy()
        if (found[0] != order[:, None]).any() or (found[1] != columns).any():
            return False
        return None if (order == rows[:, 0]).all() else order

    def get_state_dict(self, checkpoint_file: str, model: Any) -> Any:
        """Weights as floats by the model's names, and nothing for each that stays packed."""
        if self.supported:
            return super().get_state_dict(checkpoint_file, model)
        tensors: dict[str, torch.Tensor] = {}
        parsed = {"tensors": tensors}
        for name, tensor in self.file.tensors.items():
            if name in self.kept:
                tensors[self.names[name]] = torch.empty(0)
                continue
            numbers = dequantize(self._rows(name), GGMLQuantizationType[tensor.kind]).reshape(tensor.shape)
            result = self.processor.process(
                numbers, name, tensor_key_mapping=self.names, parsed_parameters=parsed
            )
            if result.name in self.names:
                tensors[self.names[result.name]] = torch.from_numpy(np.array(result.weights)).to(self.dtype)
        return tensors

    def _rows(self, name: str) -> np.ndarray:
        """A tensor's bytes, row by row."""
        return self.file.data(name).reshape(*self.file.tensors[name].shape[:-1], -1)

    def _process_model_after_weight_loading(self, model: Any, **kwargs: Any) -> Any:
        """Puts planes where bytes or nothing are."""
        sharing: dict[int, list[nn.Module]] = {}  # modules by their weights, which may be tied
        for module in model.modules():
            weight = module._parameters.get("weight")
            if weight is not None:
                sharing.setdefault(id(weight), []).append(module)
        for name, order in self.kept.items():
            tensor, rows = self.file.tensors[name], self._rows(name)
            module = model.get_submodule(self.names[name].rpartition(".")[0])
            self._keep(
                sharing[id(module.weight)],
                tensor.kind,
                rows if order is None else rows[order],
                tensor.shape[1],
            )
        holders: dict[str, Any] = self.packed_modules
        for name, module in holders.items():
            kind = GGMLQuantizationType(self.quantized[name]).name
            rows = module.weight.cpu().numpy()
            columns = rows.shape[1] // KINDS[kind].nbytes * KINDS[kind].size
            self._keep(sharing[id(module.weight)], kind, rows, columns)
        model._weight_conversions = None  # those of the file: what is saved is the model's own
        return model

    def _keep(self, modules: Sequence[Any], kind: str, rows: np.ndarray, columns: int) -> None:
        """Has modules keep one matrix, whose rows of bytes are given."""
        made = planes_of_gguf(rows.reshape(-1), kind, (rows.shape[0], columns))
        planes = {name: shared(host_tensor(x), self.device) for name, x in made.items()}
        for module in modules:
            keep_packed(module, kind, columns, planes)
            module.compute_dtype = self.dtype

    def is_serializable(self, safe_serialization: Any = None) -> bool:
        return False


auto.register_quantization_config(NAME)(HologramGgufConfig)
auto.register_quantizer(NAME)(HologramGgufQuantizer)
