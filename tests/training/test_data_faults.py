"""Bad data ends a run before its first step, or names the sample (U013, U014)."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import CLASSES, Recorder, classifier, data

from nntrainer_py import Model
from nntrainer_py.data.generator import IterableDataset
from nntrainer_py.errors import DataError
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.input import Input
from nntrainer_py.losses.cross_softmax import CrossSoftmax


@pytest.mark.parametrize("wrong", [CLASSES, -1, 255])
@pytest.mark.parametrize("path", ["arrays", "generator", "kernel"])
def test_u013_class_index_out_of_range(wrong, path):
    """U013: one label = classes, -1 or 255: an error that names sample and value, wherever it is found."""
    x, y = data(20)
    y[13] = wrong
    recorder = Recorder()
    if path == "kernel":  # the loss takes class numbers, and the data hands them on as they are
        layers = [Input(input_shape="1:1:6"), FullyConnected(unit=CLASSES), CrossSoftmax(integer_labels=True)]
        model = Model.build(layers, model={"batch_size": 8}, optimizer="sgd").compile(threads=1)
    else:
        model = classifier()
    source = IterableDataset(lambda: zip(x, y, strict=True)) if path == "generator" else (x, y)
    with pytest.raises(DataError, match=rf"sample 13.*{wrong}") as caught:
        model.train(source, shuffle=False, callbacks=[recorder])
    assert caught.value.exit_code == 3
    assert len(recorder.batches) <= 1  # sample 13 is in the second batch of 8


@pytest.mark.parametrize("row", [[0.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.5, -0.5, 0.0]])
def test_u013_a_row_that_is_no_distribution(row):
    """U013: one-hot rows that sum to 0 or 2: the sample is named; soft rows that sum to 1 are fine."""
    x, y = data(20)
    one_hot = np.eye(CLASSES, dtype=np.float32)[y]
    one_hot[2] = [0.2, 0.5, 0.3]
    assert np.isfinite(classifier().train(x, one_hot).history[0].loss)
    one_hot[13] = row
    with pytest.raises(DataError, match="sample 13"):
        classifier().train(x, one_hot)


def test_u014_a_list_of_images_with_blanks_and_a_missing_file(tmp_path):
    """U014: blank lines, trailing blanks, a tab and a duplicate are fine; a missing file is told with its line."""
    image = pytest.importorskip("PIL.Image")
    random = np.random.default_rng(0)
    for name in ("a", "b", "c"):
        image.fromarray(random.integers(0, 256, size=(1, 6), dtype=np.uint8)).save(tmp_path / f"{name}.png")
    listed = tmp_path / "train.lst"
    listed.write_text("a.png 0\n\nb.png 1  \n\t\nc.png\t2\na.png 0\n   \n")
    recorder = Recorder()
    classifier().train(listed, callbacks=[recorder])
    assert recorder.batches[0].samples == 4
    listed.write_text("a.png 0\n\nb.png 1  \nmissing.png 2\n")
    recorder = Recorder()
    with pytest.raises(DataError, match=r"train\.lst:4: .*missing\.png"):
        classifier().train(listed, callbacks=[recorder])
    assert recorder.calls == []
