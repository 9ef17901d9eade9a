"""Write tumours_train.dat and tumours_test.dat: NNTrainer's raw format, from the copy of the data inside scikit-learn.

A sample is 30 measurements, each shifted and scaled to mean 0 and deviation 1 over the training samples, and a label of
0 (malignant) or 1 (benign), little-endian float32, without header.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split


def main(folder: Path) -> None:
    """Split the 569 samples into three quarters and one quarter, stratified by class with seed 0, and write them."""
    tumours = load_breast_cancer()
    train_x, test_x, train_y, test_y = train_test_split(
        tumours.data, tumours.target, test_size=0.25, stratify=tumours.target, random_state=0
    )
    mean, deviation = train_x.mean(axis=0), train_x.std(axis=0)
    for name, x, y in (("tumours_train.dat", train_x, train_y), ("tumours_test.dat", test_x, test_y)):
        np.column_stack([(x - mean) / deviation, y]).astype("<f4").tofile(folder / name)


if __name__ == "__main__":
    main(Path(__file__).resolve().parent)
