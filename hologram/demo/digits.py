"""Softmax regression on handwritten digits: a model, trained by momentum along the gradient of its loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import hologram as hg
from hologram.demo.library import Library
from hologram.foundation.frozen import frozen

CLASSES = 10
STEPS = 300
RATE = 0.5
MOMENTUM = 0.9
DECAY = 1e-3  # of the weights, against overfitting
HELD_OUT = 450


@frozen
class Digits:
    """Images of shape (n, pixels), the last a constant 1 for the bias, and labels of shape (n,)."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def split(images: np.ndarray, labels: np.ndarray) -> Digits:
    """Shuffles, always alike, and holds the last HELD_OUT out; images are (n, pixels) in 0..1."""
    order = np.random.default_rng(0).permutation(len(images))
    images = np.hstack([images, np.ones((len(images), 1))]).astype(np.float32)[order]
    labels = labels[order]
    return Digits(images[:-HELD_OUT], labels[:-HELD_OUT], images[-HELD_OUT:], labels[-HELD_OUT:])


def train(digits: Digits, library: Library, report: Callable[[], None]) -> np.ndarray:
    """Weights of shape (pixels, CLASSES) that minimise the loss, by STEPS steps over all images."""
    step = library.compiled(descent) if library.compiled else descent_by_hand
    images, labels = library.asarray(digits.train_images), library.asarray(digits.train_labels)
    start = np.zeros((images.shape[1], CLASSES), np.float32)
    weights, velocity = library.asarray(start), library.asarray(start)
    for _ in range(STEPS):
        weights, velocity = step(weights, velocity, images, labels)
        report()
    return np.asarray(weights)


def loss(weights: Any, images: Any, labels: Any) -> Any:
    """The mean cross entropy of softmax, and half of the weights' squares against overfitting."""
    return hg.cross_entropy_loss(images @ weights, labels) + DECAY / 2 * hg.sum(weights * weights)


def descent(weights: Any, velocity: Any, images: Any, labels: Any) -> tuple[Any, Any]:
    """A step: the weights and their velocity after it."""
    _, gradient = hg.value_and_grad(loss)(weights, images, labels)
    velocity = MOMENTUM * velocity - RATE * gradient
    return weights + velocity, velocity


def descent_by_hand(
    weights: np.ndarray, velocity: np.ndarray, images: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same in NumPy, which has no gradients."""
    _, gradient = slope_by_hand(weights, images, labels)
    velocity = MOMENTUM * velocity - RATE * gradient
    return weights + velocity, velocity


def slope_by_hand(weights: np.ndarray, images: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """The loss and its gradient in NumPy."""
    scores, rows = images @ weights, np.arange(len(labels))
    scores -= np.max(scores, axis=1, keepdims=True)
    chosen, powers = scores[rows, labels], np.exp(scores)
    total = np.sum(powers, axis=1, keepdims=True)
    mean = np.mean(np.log(total[:, 0]) - chosen)
    powers /= total
    powers[rows, labels] -= 1
    gradient = images.T @ powers * np.float32(1 / len(labels)) + DECAY * weights
    return float(mean + DECAY / 2 * np.sum(weights * weights)), gradient


def classify(images: np.ndarray, weights: np.ndarray, library: Library) -> np.ndarray:
    """The class of each image."""
    scores = library.functions.matmul(library.asarray(images), library.asarray(weights))
    return np.asarray(library.functions.argmax(scores, axis=1))


def confusion(labels: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """How often each class (row) was answered with each (column)."""
    counts = np.zeros((CLASSES, CLASSES), np.int64)
    np.add.at(counts, (labels, answers), 1)
    return counts
