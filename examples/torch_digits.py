"""A convolutional network learns handwritten digits with PyTorch on any GPU.

python examples/torch_digits.py --backend webgpu prints the accuracy on digits that were held out.
"""

from __future__ import annotations

from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

import hologram as hg
import hologram_torch.module  # it makes the device
from hologram.demo.gallery import run

HELD_OUT = 360  # of 1797 images of 8 x 8
BATCH = 64


def network() -> nn.Module:
    """Two convolutions and two layers of neurons."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 16, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10),
    )  # fmt: skip


def train(epochs: int = 6, device: str = "hologram", compiled: bool = False) -> float:
    """Trains with AdamW and gives the accuracy on images that were held out."""
    torch.manual_seed(0)
    digits: Any = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(images))
    images, labels = images[order].to(device), labels[order].to(device)
    model = network().to(device)
    called = torch.compile(model, backend="hologram") if compiled else model
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    seen = len(images) - HELD_OUT
    accuracy = 0.0
    for epoch in range(epochs):
        model.train()
        for batch in torch.randperm(seen).split(BATCH):
            where = batch.to(device)
            optimiser.zero_grad()
            loss = functional.cross_entropy(called(images[where]), labels[where])
            loss.backward()
            optimiser.step()
        model.eval()
        with torch.no_grad():
            right = model(images[seen:]).argmax(1) == labels[seen:]
        accuracy = right.float().mean().item()
        print(f"epoch {epoch + 1}: {accuracy:.1%} of the held-out images")
    return accuracy


def main(epochs: int = 6, compiled: bool = False) -> None:
    hologram_torch.module.set_backend(hg.default_executor().backend)
    train(epochs, compiled=compiled)


if __name__ == "__main__":
    run(main)
