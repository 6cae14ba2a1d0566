"""Metrics whose state is on the device, beside the host's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

metrics: Any = pytest.importorskip("torchmetrics")
LIBRARY = "torchmetrics"
CLASSES = {"task": "multiclass", "num_classes": 5}
OF_CLASSES = {
    "Accuracy": CLASSES,
    "F1Score": CLASSES | {"average": "macro"},
    "AUROC": CLASSES,
    "ConfusionMatrix": CLASSES,
    "AveragePrecision": CLASSES | {"thresholds": 20},
    "CohenKappa": CLASSES,
    "CalibrationError": CLASSES,
}
OF_NUMBERS = ("MeanSquaredError", "MeanAbsoluteError", "R2Score", "PearsonCorrCoef", "SpearmanCorrCoef")


@pytest.mark.parametrize("name", OF_CLASSES)
def test_of_classes(name: str) -> None:
    host = getattr(metrics, name)(**OF_CLASSES[name])
    ours = getattr(metrics, name)(**OF_CLASSES[name]).to("hologram")
    for _ in range(3):
        scores, labels = torch.randn(40, 5).softmax(1), torch.randint(0, 5, (40,))
        host.update(scores, labels)
        ours.update(scores.to("hologram"), labels.to("hologram"))
    found = ours.compute()
    assert found.device.type == "hologram"
    torch.testing.assert_close(found.cpu(), host.compute(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_of_numbers(name: str) -> None:
    host, ours = getattr(metrics, name)(), getattr(metrics, name)().to("hologram")
    for _ in range(3):
        x = torch.randn(50)
        y = x + 0.3 * torch.randn(50)
        host.update(x, y)
        ours.update(x.to("hologram"), y.to("hologram"))
    torch.testing.assert_close(ours.compute().cpu(), host.compute(), rtol=1e-4, atol=1e-5)


def test_of_images() -> None:
    x = torch.rand(2, 3, 48, 48)
    y = (x + 0.1 * torch.randn_like(x)).clamp(0, 1)
    for name in ("StructuralSimilarityIndexMeasure", "PeakSignalNoiseRatio"):
        made = getattr(metrics.image, name)
        host, ours = made(data_range=1.0), made(data_range=1.0).to("hologram")
        found = ours(x.to("hologram"), y.to("hologram"))
        torch.testing.assert_close(found.cpu(), host(x, y), rtol=1e-4, atol=1e-4)
