"""Softmax regression on handwritten digits: a model and its gradient, written out, trained by momentum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hologram.demo.library import Library

CLASSES = 10
STEPS = 300
RATE = 0.5
MOMENTUM = 0.9
DECAY = 1e-3  # of the weights, against overfitting
HELD_OUT = 450


@dataclass(frozen=True)
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
    """Weights of shape (pixels, CLASSES) that minimise the mean cross entropy, by STEPS steps over all images."""
    xp = library.functions
    images = library.asarray(digits.train_images)
    wanted = library.asarray(np.eye(CLASSES, dtype=np.float32)[digits.train_labels])
    weights = library.asarray(np.zeros((images.shape[1], CLASSES), np.float32))
    velocity: Any = weights
    for _ in range(STEPS):
        probabilities = library.softmax(xp.matmul(images, weights))
        gradient = (
            xp.matmul(images.T, probabilities - wanted) * (1 / len(digits.train_labels)) + DECAY * weights
        )
        velocity = MOMENTUM * velocity - RATE * gradient
        weights = weights + velocity
        report()
    return np.asarray(weights)


def classify(images: np.ndarray, weights: np.ndarray, library: Library) -> np.ndarray:
    """The class of each image."""
    scores = library.functions.matmul(library.asarray(images), library.asarray(weights))
    return np.asarray(library.functions.argmax(scores, axis=1))


def confusion(labels: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """How often each class (row) was answered with each (column)."""
    counts = np.zeros((CLASSES, CLASSES), np.int64)
    np.add.at(counts, (labels, answers), 1)
    return counts
