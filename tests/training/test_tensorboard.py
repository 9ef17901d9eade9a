"""Event files, read back by TensorBoard itself, by the documented layout, and compared with the history."""

from __future__ import annotations

import struct
import warnings

import pytest
from small_models import Recorder, classifier, data, regressor

from nntrainer_py.errors import DataError
from nntrainer_py.formats.event_file import PATTERN, EventFile, crc32c
from nntrainer_py.training.tensorboard import TensorBoard


def accumulated(folder):
    """Tag to (step, value) pairs, as TensorBoard shows them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the packages that it imports
        module = pytest.importorskip(
            "tensorboard.backend.event_processing.event_accumulator", reason="needs the extra tensorboard"
        )
        found = module.EventAccumulator(str(folder), size_guidance={module.SCALARS: 0})
        found.Reload()
        return {
            tag: [(event.step, event.value) for event in found.Scalars(tag)] for tag in found.Tags()[module.SCALARS]
        }


def single(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (b"", 0),
    ],
)
def test_checksum_against_the_vectors_of_rfc_3720(content, value):
    assert crc32c(content) == value


def test_the_first_record_by_hand(tmp_path):
    """The layout that is documented: length, checksum, message, checksum; the message says its version."""
    file = EventFile(tmp_path / "a" / "b")
    file.close()
    content = file.path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    assert len(content) == 8 + 4 + length + 4
    message = content[12 : 12 + length]
    assert message[:1] == b"\x09"
    assert message[9:] == b"\x1a\x0dbrain.Event:2"
    for part, stored in ((content[:8], content[8:12]), (message, content[-4:])):
        value = crc32c(part)
        masked = ((value >> 15) + (value << 17 & 0xFFFFFFFF) + 0xA282EAD8) % 2**32
        assert struct.unpack("<I", stored) == (masked,)


def test_figures_of_a_run_as_tensorboard_reads_them(tmp_path):
    recorder = Recorder()
    result = classifier(batch_size=4).train(
        *data(21), valid=data(9, 1), test=data(9, 2), epochs=3, callbacks=[TensorBoard(tmp_path), recorder]
    )
    found = accumulated(tmp_path)
    assert found["batch/loss"] == [(batch.step, single(batch.loss)) for batch in recorder.batches]
    assert len(found["batch/learning_rate"]) == 18
    assert found["epoch"] == [(6, 1.0), (12, 2.0), (18, 3.0)]
    for tag, column in (("loss/train", "loss"), ("accuracy/train", "accuracy"), ("loss/valid", "valid_loss"),
                        ("accuracy/valid", "valid_accuracy")):  # fmt: skip
        assert found[tag] == [(row.step, single(row.figure(column))) for row in result.history]
    assert found["test/loss"] == [(18, single(result.test["loss"]))]
    assert len(list(tmp_path.glob(PATTERN))) == 1


def test_regression_without_validation(tmp_path):
    x, _ = data(16)
    regressor().train(x, x[:, :2], epochs=2, callbacks=[TensorBoard(tmp_path)])
    tags = {"batch/loss", "batch/learning_rate", "epoch", "loss/train", "mae/train", "r2/train"}
    assert set(accumulated(tmp_path)) == tags


@pytest.mark.parametrize("stop", [8, 12])
def test_steps_that_are_done_again_show_once(tmp_path, stop):
    """Killed at a step behind its last checkpoint and resumed: TensorBoard shows the run that never stopped."""
    whole = classifier(batch_size=4)
    whole.train(*data(21), valid=data(9, 1), epochs=3, callbacks=[TensorBoard(tmp_path / "whole")])

    class Killed(Recorder):
        def batch_end(self, run, batch):
            if batch.step == stop:
                raise RuntimeError("killed")

    settings = {"valid": data(9, 1), "epochs": 3, "checkpoint": tmp_path / "c.safetensors"}
    with pytest.raises(RuntimeError, match="killed"):
        classifier(batch_size=4).train(*data(21), callbacks=[TensorBoard(tmp_path / "parts"), Killed()], **settings)
    model = classifier(batch_size=4)
    model.train(*data(21), callbacks=[TensorBoard(tmp_path / "parts")], resume=True, **settings)
    assert len(list((tmp_path / "parts").glob(PATTERN))) == 2
    assert accumulated(tmp_path / "parts") == accumulated(tmp_path / "whole")
    # a folder that begins with the resumed part has the figures of the earlier epochs
    model = classifier(batch_size=4)
    model.train(*data(21), callbacks=[TensorBoard(tmp_path / "late")], resume=True, **{**settings, "epochs": 4})
    late = accumulated(tmp_path / "late")
    assert late["loss/train"][:3] == accumulated(tmp_path / "whole")["loss/train"]
    assert [step for step, _ in late["batch/loss"]] == list(range(19, 25))


def test_values_that_float32_lacks_and_large_steps(tmp_path):
    file = EventFile(tmp_path)
    file.scalars(2**40, {"größe": 1e300, "small": -1e300, "sum": 0.1})
    file.flush()
    found = accumulated(tmp_path)
    file.close()
    assert found["größe"] == [(2**40, float("inf"))]
    assert found["small"] == [(2**40, float("-inf"))]
    assert found["sum"] == [(2**40, single(0.1))]


def test_a_folder_that_cannot_be_used(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"tfevents.*cannot be written"):
        classifier().train(*data(16), epochs=1, callbacks=[TensorBoard(tmp_path / "file")])
