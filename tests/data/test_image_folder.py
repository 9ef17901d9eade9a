"""Image folders and list files."""

from __future__ import annotations

import os
import struct
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest

from nntrainer_py.data import BatchLoader, ImageDataset
from nntrainer_py.errors import DataError, Origin

Image = pytest.importorskip("PIL.Image")
DIMS = ([(3, 6, 8)], [(1, 1, 3)])


def picture(seed, height=6, width=8):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path):
    """Two images in each of three class folders, and files that are no images."""
    for k, name in enumerate(["dog", "ant", "cat"]):
        (tmp_path / name).mkdir()
        for j, suffix in enumerate(["png", "BMP"]):
            Image.fromarray(picture(10 * k + j)).save(tmp_path / name / f"{j}.{suffix}")
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    (tmp_path / "cat" / ".hidden.png").write_text("no image")
    (tmp_path / "readme.md").write_text("no class")
    (tmp_path / ".cache").mkdir()
    return tmp_path


def rows(data, dims=DIMS, **options):
    data.bind(*dims, **options)
    (batch,) = BatchLoader(data, len(data))
    return [*batch.inputs, *(label.argmax(axis=-1)[:, 0, 0].tolist() for label in batch.labels)]


def test_class_folders_in_sorted_order(folder):
    data = ImageDataset(folder)
    assert data.class_names == ("ant", "cat", "dog")
    assert data.notices == [f"{folder}: 1 file skipped, no PNG, JPEG or BMP image"]
    x, y = rows(data)
    assert y == [0, 0, 1, 1, 2, 2]
    for row, seed in enumerate([10, 11, 20, 21, 0, 1]):
        np.testing.assert_array_equal(x[row], picture(seed).transpose(2, 0, 1))


def test_jpeg_size_and_channels(folder):
    (folder / "only").mkdir()
    flat = np.full((30, 40, 3), [200, 100, 50], dtype=np.uint8)
    Image.fromarray(flat).save(folder / "only" / "a.jpeg", quality=95)
    (folder / "list.txt").write_text("only/a.jpeg 0\n")
    x, _ = rows(ImageDataset(folder / "list.txt"))
    np.testing.assert_allclose(x[0].mean(axis=(1, 2)), [200, 100, 50], atol=3)
    grey, _ = rows(ImageDataset(folder / "list.txt"), ([(1, 6, 8)], [(1, 1, 3)]))
    np.testing.assert_allclose(grey[0], 0.299 * 200 + 0.587 * 100 + 0.114 * 50, atol=3)


def test_class_names_of_the_training_data(folder):
    (folder / "valid" / "dog").mkdir(parents=True)
    Image.fromarray(picture(5)).save(folder / "valid" / "dog" / "a.png")
    _, y = rows(ImageDataset(folder / "valid"), class_names=["ant", "cat", "dog"])
    assert y == [2]
    with pytest.raises(DataError, match=r"dog.a\.png: expected one of the class names .*ant, cat\), got 'dog'"):
        rows(ImageDataset(folder / "valid"), class_names=["ant", "cat"])


class TestU014:
    """U014: blanks, tabs and duplicates in a list are fine; a missing file is named with its line at once."""

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    def test_list(self, folder, end):
        lines = [
            "\ufeffdog/0.png dog",
            "",
            "cat/1.BMP\tcat  ",
            "  ",
            "ant/0.png,ant",
            "dog/0.png   dog",
            "ant/1.BMP",
            "",
            "",
        ]
        file = folder / "list.txt"
        file.write_bytes(end.join(lines).encode())
        data = ImageDataset(file)
        x, y = rows(data)
        assert y == [2, 1, 0, 2, 0]
        np.testing.assert_array_equal(x[0], x[3])
        assert data.where(2) == f"{file}:5"

    def test_missing_file(self, folder):
        file = folder / "list.txt"
        file.write_text("dog/0.png 0\n\ncat/9.png  1\n")
        with pytest.raises(
            DataError, match=rf"^m\.ini:3: \[train_set\] path: .*list\.txt:3: there is no image '{folder}/cat/9.png'"
        ):
            ImageDataset(file, origin=Origin("m.ini", 3, "train_set"), key="path")

    def test_names_with_blanks_and_commas(self, folder):
        name = "a, b .png c.png"
        Image.fromarray(picture(1)).save(folder / name)
        (folder / "list.txt").write_text(f"{name} 2\n")
        assert rows(ImageDataset(folder / "list.txt"))[1] == [2]

    def test_class_index_out_of_range(self, folder):
        (folder / "list.txt").write_text("dog/0.png 0\ndog/1.BMP 3\n")
        with pytest.raises(DataError, match=r"list\.txt:2: expected a class index in 0\.\.2, got 3"):
            ImageDataset(folder / "list.txt").bind(*DIMS)

    def test_line_without_image(self, folder):
        (folder / "list.txt").write_text("dog/0.gif 0\n")
        with pytest.raises(DataError, match=r"list\.txt:1: expected the name of an image"):
            ImageDataset(folder / "list.txt")


def test_no_image(tmp_path):
    with pytest.raises(DataError, match="no image in it"):
        ImageDataset(tmp_path)
    with pytest.raises(DataError, match="no such file"):
        ImageDataset(tmp_path / "missing")


def test_file_that_is_no_image_is_found_before_the_first_step(folder):
    (folder / "ant" / "2.png").write_text("hello")
    with pytest.raises(DataError, match=r"ant/2\.png: is no PNG, JPEG or BMP image"):
        ImageDataset(folder)


def test_damaged_image(folder):
    whole = (folder / "ant" / "0.png").read_bytes()
    (folder / "ant" / "2.png").write_bytes(whole[: len(whole) // 2])
    data = ImageDataset(folder)
    data.bind(*DIMS)
    with pytest.raises(DataError, match=r"ant/2\.png: is no readable image"):
        list(BatchLoader(data, 4))


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def test_image_that_would_fill_the_memory(folder):
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0))
    content = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    (folder / "ant" / "2.png").write_bytes(content)
    data = ImageDataset(folder)
    data.bind(*DIMS)
    with pytest.raises(DataError, match=r"ant/2\.png"):
        list(BatchLoader(data, 4))


def test_other_format_behind_the_right_start(folder):
    Image.fromarray(picture(1)).save(folder / "x.gif")
    (folder / "ant" / "2.png").write_bytes(b"BM" + (folder / "x.gif").read_bytes())
    data = ImageDataset(folder)
    data.bind(*DIMS)
    with pytest.raises(DataError, match=r"ant/2\.png: is no readable image"):
        list(BatchLoader(data, 4))


def test_images_without_class_folders_have_no_label(tmp_path):
    for k in range(3):
        Image.fromarray(picture(k)).save(tmp_path / f"{k}.png")
    data = ImageDataset(tmp_path)
    (x,) = rows(data, (DIMS[0], []))
    np.testing.assert_array_equal(x[2], picture(2).transpose(2, 0, 1))
    with pytest.raises(DataError, match="no class folder"):
        data.bind(*DIMS)


def resident(key):
    return int(Path("/proc/self/status").read_text().split(key + ":")[1].split()[0]) * 1024


def grown(act):
    """By how much resident memory is larger at most."""
    act()
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    act()
    return resident("VmHWM") - before


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16", "CMYK", "transparent", "progressive"])
@pytest.mark.parametrize("size", [(6, 8), (700, 5)])
def test_pixels_are_those_of_scaling_the_whole_picture(tmp_path, channels, mode, size, monkeypatch):
    monkeypatch.setattr("nntrainer_py.data.image_folder._BAND_BYTES", 4096)
    values = np.random.default_rng(0).integers(0, 256, (61, 97, 4), dtype=np.uint8)
    if mode == "I;16":
        image = Image.fromarray(values[..., 0].astype(np.uint16) * 201)
    elif mode in ("P", "transparent"):
        image = Image.fromarray(values[..., :3]).quantize(16)
    else:
        image = Image.fromarray(values, "RGBA").convert("RGB" if mode == "progressive" else mode)
    suffix = "jpg" if mode in ("CMYK", "progressive") else "png"
    options = {"transparent": {"transparency": 3}, "progressive": {"progressive": True}}.get(mode, {})
    image.save(tmp_path / f"a.{suffix}", **options)
    height, width = size
    data = ImageDataset(tmp_path)
    (x,) = rows(data, ([(channels, height, width)], []))
    with Image.open(tmp_path / f"a.{suffix}") as opened:
        whole = opened.convert({1: "L", 3: "RGB", 4: "RGBA"}[channels]).resize((width, height), Image.BILINEAR)
    expected = np.asarray(whole).reshape(height, width, channels).transpose(2, 0, 1)
    np.testing.assert_array_equal(x[0], expected)


@pytest.mark.parametrize("suffix", ["jpg", "png", "bmp", "progressive.jpg"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_a_large_picture_takes_what_is_counted(tmp_path, suffix, channels):
    (tmp_path / "a").mkdir()
    large = Image.fromarray(picture(1)).resize((3000, 2000))
    large.save(tmp_path / "a" / f"0.{suffix}", **({"progressive": True} if "prog" in suffix else {}))
    Image.fromarray(picture(2)).save(tmp_path / "a" / "1.png")
    data = ImageDataset(tmp_path)
    data.bind([(channels, 32, 32)], [(1, 1, 2)])
    loader = BatchLoader(data, 2, buffer_size=0)
    pixels = 3000 * 2000 * 4
    assert pixels <= loader.buffer_bytes <= (2 if "prog" in suffix else 1) * pixels + (4 << 20)
    assert grown(lambda: list(loader)) <= 1.1 * loader.buffer_bytes + (6 << 20)


def test_a_picture_that_is_refused_counts_for_nothing(folder):
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0))
    (folder / "ant" / "2.png").write_bytes(b"\x89PNG\r\n\x1a\n" + head)
    (folder / "ant" / "3.jpg").write_bytes(b"\xff\xd8\xff\xc0\x00\x0b")
    (folder / "ant" / "4.bmp").write_bytes(b"BM\0")
    data = ImageDataset(folder)
    data.bind(*DIMS)
    assert data.scratch_bytes(4) < 10_000


def test_a_list_takes_a_few_bytes_a_picture(tmp_path):
    count = 20_000
    (tmp_path / "pictures").mkdir()
    Image.fromarray(picture(1)).save(tmp_path / "pictures" / "0.png")
    for k in range(1, 5):
        os.link(tmp_path / "pictures" / "0.png", tmp_path / "pictures" / f"{k}.png")
    lines = [f"pictures/{k % 5}.png {'abc'[k % 3]}" for k in range(count)]
    (tmp_path / "list.txt").write_text("\n".join(lines) + "\n")
    ImageDataset(tmp_path / "list.txt")
    tracemalloc.start()
    data = ImageDataset(tmp_path / "list.txt")
    data.bind(*DIMS, class_names=["c", "b", "a"])
    held, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count * 20 <= data.resident_bytes <= count * 40
    assert held <= most <= data.resident_bytes + (1 << 18)
    for k in (0, 1, 4095, 4096, 12_345, count - 1):
        assert data.where(k) == f"{tmp_path / 'list.txt'}:{k + 1}"
        assert data._images[k].path == tmp_path / "pictures" / f"{k % 5}.png"
        x, y = np.zeros((1, 3, 6, 8), np.float32), np.zeros((1, 1, 1, 3), np.float32)
        data.read(np.array([k]), [x], [y])
        assert y.argmax() == 2 - k % 3
