"""Write digits_train.dat and digits_test.dat: NNTrainer's raw format, from the copy of the data inside scikit-learn.

A sample is 64 pixels scaled to 0..1 and a one-hot label of 10, little-endian float32, without header.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


def main(folder: Path) -> None:
    """Split the 1,797 digits into three quarters and one quarter, stratified by class with seed 0, and write them."""
    digits = load_digits()
    rows = np.hstack([digits.data / 16.0, np.eye(10)[digits.target]])
    parts = train_test_split(rows, test_size=0.25, stratify=digits.target, random_state=0)
    for name, part in zip(("digits_train.dat", "digits_test.dat"), parts, strict=True):
        part.astype("<f4").tofile(folder / name)


if __name__ == "__main__":
    main(Path(__file__).resolve().parent)
