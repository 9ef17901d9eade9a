"""Turn CIFAR-100 (its binary version) into the files that the models of VGG and Resnet train on."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

#: a byte for the coarse class, one for the fine class, then 3 x 32 x 32 pixels
SAMPLE = 2 + 3 * 32 * 32


def main(source: Path, target: Path) -> None:
    """From the folder with ``train.bin`` and ``test.bin`` to ``cifar100_train.npz`` and ``cifar100_test.npz``."""
    for part in ("train", "test"):
        samples = np.fromfile(source / f"{part}.bin", np.uint8).reshape(-1, SAMPLE)
        np.savez(target / f"cifar100_{part}.npz", x=samples[:, 2:].reshape(-1, 3, 32, 32), y=samples[:, 1])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: make_data.py FOLDER_WITH_TRAIN_BIN TARGET_FOLDER")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
