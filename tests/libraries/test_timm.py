"""Models of each family, forward and backward; mixup, EMA, its optimisers, a step of its train script."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

timm: Any = pytest.importorskip("timm")
LIBRARY = "timm"
MODELS = {
    "resnet18": {"img_size": None},
    "mobilenetv3_small_050": {"img_size": None},
    "efficientnet_lite0": {"img_size": None},
    "convnext_atto": {"img_size": None},
    "vit_tiny_patch16_224": {"img_size": 64},
    "deit3_small_patch16_224": {"img_size": 64},
    "mixer_s32_224": {"img_size": 64},
    "edgenext_xx_small": {"img_size": None},
    "regnety_002": {"img_size": None},
    "levit_128s": {"img_size": None},
}


@pytest.mark.parametrize("name", sorted(MODELS))
def test_gradients_are_the_hosts(name: str) -> None:
    size = MODELS[name]["img_size"]
    host = timm.create_model(name, num_classes=10, **({"img_size": size} if size else {})).eval()
    side = size or (224 if name.startswith("levit") else 64)
    x = torch.randn(2, 3, side, side)
    ours = copy.deepcopy(host).to("hologram")
    found, wanted = ours(x.to("hologram")), host(x)
    torch.testing.assert_close(found.cpu(), wanted, rtol=2e-3, atol=2e-3)
    found.square().mean().backward()
    wanted.square().mean().backward()
    for (label, p), q in zip(ours.named_parameters(), host.parameters(), strict=True):
        if q.grad is not None:
            scale = q.grad.abs().max().item() + 1e-6
            torch.testing.assert_close(p.grad.cpu() / scale, q.grad / scale, rtol=0, atol=2e-2, msg=label)


def test_a_step_as_its_train_script_makes_it() -> None:
    from timm.data.mixup import Mixup
    from timm.loss import SoftTargetCrossEntropy
    from timm.optim import create_optimizer_v2
    from timm.utils import ModelEmaV3, NativeScaler

    device = timm.utils.init_distributed_device(copy.copy(Arguments()))
    model = timm.create_model("resnet18", num_classes=10).to(device)
    optimiser = create_optimizer_v2(model, opt="lamb", lr=1e-2)
    scaler, average = NativeScaler(device=device.type), ModelEmaV3(model)
    mixup = Mixup(mixup_alpha=0.8, num_classes=10, label_smoothing=0.1)
    x, y = torch.randn(8, 3, 64, 64).to(device), torch.arange(8).to(device) % 10
    losses = []
    for _ in range(3):
        mixed, target = mixup(x.clone(), y)
        with torch.autocast(device.type, dtype=torch.float16):
            loss = SoftTargetCrossEntropy()(model(mixed), target)
        optimiser.zero_grad()
        scaler(loss, optimiser, clip_grad=1.0, parameters=model.parameters())
        average.update(model)
        losses.append(loss.item())
    assert all(map(torch.isfinite, map(torch.tensor, losses)))
    assert losses[-1] < losses[0] * 1.5


class Arguments:
    device = "hologram"
