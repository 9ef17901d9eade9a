"""Images in a folder for each class, or named by a list file; decoded when they are read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from nntrainer_py.data.dataset import Float32, IndexedDataset, Indices, Shape, show
from nntrainer_py.data.files import checked_file, checked_folder, reason
from nntrainer_py.data.image_header import BMP, JPEG, PNG, START_BYTES, Decoded, decoded
from nntrainer_py.data.image_list import Picture, PictureList
from nntrainer_py.data.labels import Classes, encode_labels
from nntrainer_py.errors import DataError, MissingExtraError, Origin, counted, printable, quoted

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp")
_FORMATS = ("PNG", "JPEG", "BMP")
_MAGIC = (PNG, JPEG, BMP)
_BAND_BYTES = 1 << 20  # of a picture brought to other channels at once
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_MOST_PIXELS = 1 << 26  # a small file can declare an image that fills the memory
_LONGEST_LINE = 1 << 16


class ImageDataset(IndexedDataset):
    """PNG, JPEG and BMP images (extra ``images``), scaled to the model's input and to its number of channels.

    Pixels keep their values 0..255, as planes (channel, height, width). Images of another size are resized (bilinear).

    Args:
        path: a folder with a folder for each class, classes in sorted order (images that lie in no
            such folder have no label); or a list file with one image a line,
            ``image.png class`` (a blank, tab or comma between, class name or index) or only ``image.png``, whose class
            is then the folder it lies in. Paths in a list are relative to the list. Blank lines are skipped.
    """

    kind = "image_folder"

    def __init__(self, path: str | os.PathLike[str], *, origin: Origin | None = None, key: str = "") -> None:
        super().__init__(str(path), origin=origin, key=key)
        self._pillow = _load_pillow()
        self.path = Path(path)
        try:
            if self.path.is_file():
                self._images = PictureList(self.path.parent, by_class=False)
                found = _from_list(checked_file(path, key=key))
            else:
                self._images = PictureList(self.path, by_class=True)
                found = _from_folders(checked_folder(path, key=key), self.notices)
            self._size = self._height = 0  # of the largest and of the highest
            for one in found:
                taken = _look_at(self._images.append(*one), self.path)
                self._size, self._height = max(self._size, taken.size), max(self._height, taken.height)
            if not self._images:
                raise self.error(
                    f"there is no image in it (looked for {', '.join(SUFFIXES)} in a folder for each class)"
                )
        except DataError as error:
            raise error.located(origin, key) from None
        self.resident_bytes = self._images.nbytes
        labels = set(self._images.labels)
        self._labelled = "" not in labels
        self._index: dict[str, float]
        if self.path.is_file() and all(label.isdecimal() for label in labels):
            self._index = {label: int(label) for label in labels}
        else:
            self.class_names = tuple(sorted(labels)) if self._labelled else None
            self._index = {name: index for index, name in enumerate(self.class_names or ())}

    @property
    def sample_count(self) -> int:
        return len(self._images)

    def where(self, sample: int) -> str:
        image: Picture = self._images[sample]
        return f"{printable(self.name)}:{image.line}" if image.line else f"{printable(str(image.path))}"

    def _fit(self, inputs: list[Shape], labels: list[Shape], class_names: tuple[str, ...] | None) -> list[int]:
        if len(inputs) != 1 or len(labels) > 1:
            raise self.error(f"images are one input and one label, the model has {len(inputs)} and {len(labels)}")
        if inputs[0][0] not in _MODES:
            raise self.error(f"images have 1, 3 or 4 channels, the model takes {show(inputs[0])}")
        if labels and not self._labelled:
            raise self.error("the images lie in no class folder, so they have no label")
        if labels and encode_labels(1, labels[0]) is None:
            raise self.error(f"an image has one class, the model takes labels of {show(labels[0])}")
        if labels and class_names is not None:
            self._take_classes(class_names)
        return [1] if labels else []

    def _take_classes(self, class_names: tuple[str, ...]) -> None:
        """Use the class indices of the training data."""
        classes, index = Classes(class_names), {}
        for label in self._images.labels:
            index[label] = classes.of_text(label, partial(self._where_first, label))
        self._index, self.class_names = index, class_names or None

    def _where_first(self, label: str) -> str:
        return self.where(self._images.first(label))

    def scratch_bytes(self, batch_size: int, *, in_order: bool = False) -> int:
        """One picture at a time: the largest as it is decoded, and what is made of it."""
        scratch = super().scratch_bytes(batch_size, in_order=in_order)
        if self.input_dims is None:
            return scratch
        _, height, width = self.input_dims[0]
        bands = 2 * min(_BAND_BYTES, self._size)
        # Pillow has 4 bytes a pixel; the bytes of the result are there twice while they are handed over.
        return scratch + self._size + bands + 4 * width * (self._height + height) + 8 * height * width

    def _check_bound_labels(self) -> bool:
        if self._encoders:
            labels = self._images.labels
            values = np.array([self._index[label] for label in labels])
            self._encoders[0].check(values, "any", lambda place: self._where_first(labels[place]))
        return True

    def _fill(self, indices: Indices, inputs: list[Float32], labels: list[Float32]) -> None:
        assert self.input_dims is not None
        channel, height, width = self.input_dims[0]
        for row, number in enumerate(indices.tolist()):
            image = self._images[number]
            inputs[0][row].reshape(channel, height, width)[...] = self._decode(image, channel, height, width)
            if labels:
                labels[0][row] = self._index[image.label]

    def _decode(
        self, image: Picture, channel: int, height: int, width: int
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
        """The pixels as (channel, height, width)."""
        pillow = self._pillow
        try:
            with pillow.open(image.path, formats=_FORMATS) as opened:
                if opened.width * opened.height > _MOST_PIXELS:
                    raise self.error(
                        f"{printable(str(image.path))}: {opened.width}x{opened.height} pixels are too many"
                    )
                pixels = np.asarray(_scaled(pillow, opened, _MODES[channel], width, height), dtype=np.uint8)
        except (OSError, ValueError, SyntaxError, EOFError, pillow.DecompressionBombError) as error:
            text = reason(error) if isinstance(error, OSError) and error.strerror else str(error)
            raise self.error(f"{printable(str(image.path))}: is no readable image: {text}") from None
        return pixels.reshape(height, width, channel).transpose(2, 0, 1)


def _scaled(pillow: ModuleType, opened: Any, mode: str, width: int, height: int) -> Any:
    """The image in ``mode`` and of the size (bilinear), without a copy of it before it has that size.

    Scaling goes over rows first and over columns then, so that rows can be brought to the mode and scaled in bands.
    """
    size, method = (width, height), pillow.Resampling.BILINEAR
    if opened.size == size:
        return opened.convert(mode)
    if opened.mode == mode != "RGBA":
        return opened.resize(size, method)
    # Pillow scales colors multiplied by their opacity, and would make a copy of them all.
    between = "RGBa" if mode == "RGBA" else mode
    band = max(1, _BAND_BYTES // (4 * opened.width))
    narrow = pillow.new(between, (width, opened.height))
    for top in range(0, opened.height, band):
        bottom = min(opened.height, top + band)
        rows = opened.crop((0, top, opened.width, bottom)).convert(mode).convert(between)
        narrow.paste(rows.resize((width, bottom - top), method), (0, top))
    return narrow.resize(size, method).convert(mode)


def _load_pillow() -> ModuleType:
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtraError("images", "reading images") from None
    return Image


def _from_folders(folder: Path, notices: list[str]) -> Iterator[tuple[str, str, int]]:
    """The images of each class folder, in sorted order; without such folders the images that lie there, of no class."""
    skipped = 0
    classes = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))
    for name in classes or [""]:
        found = checked_folder(folder / name)
        for file in sorted(entry.name for entry in os.scandir(found) if not entry.name.startswith(".")):
            if file.lower().endswith(SUFFIXES):
                yield file, name, 0
            else:
                skipped += 1
    if skipped:
        notices.append(f"{folder}: {counted(skipped, 'file')} skipped, no PNG, JPEG or BMP image")


def _from_list(path: Path) -> Iterator[tuple[str, str, int]]:
    """The images of a list file."""
    name = printable(str(path))
    try:
        with path.open(encoding="utf-8-sig") as stream:  # universal newlines: CR LF and lone CR end a line
            number = 0
            while line := stream.readline(_LONGEST_LINE):
                number += 1
                if len(line) == _LONGEST_LINE:
                    raise DataError(f"{name}:{number}: the line is too long for a list of images")
                if line.strip():
                    yield _from_line(line.strip(), path.parent, f"{name}:{number}", number)
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: is not UTF-8 text (byte {error.start}: {error.reason})") from None


def _from_line(line: str, folder: Path, place: str, number: int) -> tuple[str, str, int]:
    """Split at the end of the image's name, so that names may hold blanks and commas."""
    lower = line.lower()
    ends = [
        start + len(suffix)
        for suffix in SUFFIXES
        for start in _positions(lower, suffix)
        if start + len(suffix) == len(line) or line[start + len(suffix)] in " \t,;"
    ]
    if not ends:
        raise DataError(
            f"{place}: expected the name of an image ({', '.join(SUFFIXES)}) and a class, got {quoted(line)}"
        )
    end = max(ends)
    name = line[:end].strip().strip("\"'")
    path = folder / name
    label = line[end:].strip(" \t,;").strip("\"'")
    if not path.is_file():
        raise DataError(f"{place}: there is no image {quoted(str(path))}")
    return name, label or path.parent.name, number


def _positions(text: str, word: str) -> Iterator[int]:
    start = text.find(word)
    while start >= 0:
        yield start
        start = text.find(word, start + 1)


def _look_at(image: Picture, source: Path) -> Decoded:
    """What decoding an image takes.

    Finds those that cannot be opened, or are none, before the first step; decoding all would take too long.
    """
    place = f"{printable(str(source))}:{image.line}: " if image.line else ""
    try:
        with image.path.open("rb", buffering=512) as stream:
            start = stream.read(START_BYTES)
            if start.startswith(_MAGIC):
                return decoded(start, stream, _MOST_PIXELS)
    except OSError as error:
        raise DataError(f"{place}{printable(str(image.path))}: {reason(error)}") from None
    raise DataError(f"{place}{printable(str(image.path))}: is no PNG, JPEG or BMP image")


__all__ = ["SUFFIXES", "ImageDataset"]
