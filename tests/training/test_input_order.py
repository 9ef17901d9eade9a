"""Several inputs of one size: their order is shown, named by errors, and warned of where it is a surprise."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from commands import command

from nntrainer_py import DataWarning, Model
from nntrainer_py.errors import DataError

INI = """\
[Model]
loss = mse
batch_size = 4
epochs = 1

[Optimizer]
type = sgd

[left]
type = input
input_shape = 1:1:3

[right]
type = input
input_shape = 1:1:{size}

[both]
type = {join}
{axis}
input_layers = left, right
"""

ONE, TWO = np.arange(12, dtype=np.float32).reshape(4, 3), np.ones((4, 3), np.float32)


def described(folder: Path, keys: str = "", *, size: int = 3) -> Path:
    join, axis = ("subtract", "") if size == 3 else ("concat", "axis = 3")
    text = INI.format(size=size, join=join, axis=axis).replace("[Model]\n", f"[Model]\n{keys}", 1)
    (folder / "model.ini").write_text(text, encoding="utf-8")
    return folder / "model.ini"


def test_a_list_in_another_order_than_the_description(tmp_path: Path) -> None:
    model = Model.from_ini(described(tmp_path))
    with pytest.warns(DataWarning) as caught:
        made = model.predict([TWO, ONE])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        model.predict([TWO, ONE])
        model.evaluate([TWO, ONE], ONE - TWO)
        model.train([TWO, ONE], ONE - TWO, progress=False)
    (warning,) = caught
    assert warning.filename == __file__
    assert str(warning.message) == (
        "the inputs are taken in the order right, left, which is that of NNTrainer's graph and not that of the "
        "description; give them by name in a dictionary, or fix their order with input_layers = left, right in [Model]"
    )
    np.testing.assert_array_equal(made.reshape(4, 3), ONE - TWO)
    fixed = Model.from_ini(described(tmp_path, "input_layers = left, right\n"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(fixed.predict([ONE, TWO]), made)
        np.testing.assert_array_equal(Model.from_ini(described(tmp_path)).predict({"left": ONE, "right": TWO}), made)


def test_inputs_that_cannot_be_taken_for_each_other(tmp_path: Path) -> None:
    model = Model.from_ini(described(tmp_path, size=2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict([TWO[:, :2], ONE])
        with pytest.raises(DataError, match=r"arrays: input 0 \(right\): a sample has 3 values"):
            model.predict([ONE, TWO[:, :2]])
        with pytest.raises(DataError, match=r"input 0 \(right\): a sample has 3 values"):
            model.predict({"left": ONE, "right": TWO})
        with pytest.raises(DataError, match=r"the data has 1 input, the model takes 2 \(right, left\)"):
            model.predict([ONE])
    np.savetxt(tmp_path / "x.csv", np.ones((4, 7)), delimiter=",")
    with pytest.raises(
        DataError, match=r"the model takes 5 values \(inputs 1:1:2 \(right\) and 1:1:3 \(left\), no lab"
    ):
        model.predict(tmp_path / "x.csv")


def test_the_commands_show_the_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "right, left (the order of the data; input_layers in [Model] fixes another)"
    for keys, expected in (("", line), ("input_layers = left, right\n", line.replace("right, left", "left, right"))):
        ini = described(tmp_path, keys)
        for words in (("train", ini, "--check"), ("inspect", ini)):
            done = command(capsys, *words)
            assert done.code == 0, done.err
            assert [text.split(maxsplit=1)[1] for text in done.out.splitlines() if text.startswith("inputs")] == [
                expected
            ]
    assert json.loads(command(capsys, "inspect", ini, "--json").out)["inputs"] == ["left", "right"]
