"""INI texts to specs: what is understood, what is warned of, what is refused and how it is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from graph.models import GOOD, IN, MODEL, OUT, SGD, dense, layer, messages, notices, wiring

from nntrainer_py.errors import DescriptionError
from nntrainer_py.graph.description import load_ini, load_text
from nntrainer_py.graph.save import to_text
from nntrainer_py.properties import Configurable, number, path
from nntrainer_py.registry import SECTIONS

CONSTANT = "[LearningRateScheduler]\ntype = constant\nlearning_rate = 0.5\n"
PLAIN_SGD = "[Optimizer]\ntype = sgd\n"
DATA = "[train_set]\ntype = file\npath = train.dat\n"


#: good text, good key, bad key, how many lines of the file stand before it, section, what has this key
UNKNOWN = [
    (GOOD, "batch_size", "batch_sise", 3, "Model", "Model"),
    (GOOD, "learning_rate", "learning_rat", 6, "Optimizer", "sgd"),
    (MODEL + PLAIN_SGD + CONSTANT + IN + OUT, "learning_rate", "lerning_rate", 8, "LearningRateScheduler", "constant"),
    (GOOD + DATA, "path", "pth", 15, "train_set", "file"),
    (GOOD + "[DataSet]\ntraindata = a\nvaliddata = b\n", "validdata", "valdata", 15, "DataSet", "[DataSet]"),
    (GOOD, "unit", "unitt", 12, "out", "fully_connected"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "good", "bad", "line", "section", "owner"), UNKNOWN)
def test_u001_unknown_key(text: str, good: str, bad: str, line: int, section: str, owner: str) -> None:
    """U001: file, line, section, key and the nearest known key, in every kind of section."""
    assert messages(text) == []
    expected = f"model.ini:{line}: [{section}] {bad}: unknown property of {owner}; did you mean '{good}'?"
    assert expected in messages(text.replace(good, bad))


def test_every_fault_of_a_file_comes_at_once() -> None:
    text = """[Model]
epochs = 0
los = mse
[Optimizer]
type = sdg
[train_set]
path = x.dat
[in]
type = input
input_shape = 1:1:x
[conv]
type = conv2d
kernel_size = 5
[mid]
type = fully_conected
unit = 3
input_layers = inn
[out]
type = fully_connected
unit = 3
activation = rellu
weight_decay = -1
"""
    assert messages(text) == [
        "model.ini:2: [Model] epochs: expected a positive integer, got '0'",
        "model.ini:3: [Model] los: unknown property of Model; did you mean 'loss'?",
        "model.ini:5: [Optimizer] type: unknown optimizer 'sdg'; did you mean 'sgd'?",
        "model.ini:6: [train_set] type: required, expected one of csv, file, idx, image_folder, npy, npz",
        "model.ini:10: [in] input_shape: expected one or more shapes such as 3:32:32, got '1:1:x'",
        "model.ini:11: [conv] filters: required, expected a positive integer",
        "model.ini:13: [conv] kernel_size: expected 2 positive integers, got '5'",
        "model.ini:15: [mid] type: unknown layer or loss 'fully_conected'; did you mean 'fully_connected'?",
        "model.ini:17: [mid] input_layers: there is no layer 'inn'; did you mean 'in'?",
        "model.ini:21: [out] activation: expected one of tanh, sigmoid, relu, swish, gelu, tanh_gelu, sigmoid_gelu, "
        "softmax, softplus, leaky_relu, elu, selu, mish, none, got 'rellu'; did you mean 'relu'?",
        "model.ini:22: [out] weight_decay: expected a number of at least 0, got '-1'",
    ]


#: U010: what NNTrainer accepts and refuses, rewritten from the description of its table; None: it is good
TABLE: dict[str, tuple[str, str | None]] = {
    "smallest": ("[Model]\nepochs = 1\n" + IN, None),
    "with everything": (GOOD + DATA + CONSTANT, None),
    "no loss": ("[Model]\nbatch_size = 3\n" + SGD + IN + OUT, None),
    "no optimizer": (MODEL + IN + OUT, None),
    "loss as a layer": ("[Model]\nepochs = 1\n" + SGD + IN + OUT + layer("l", "mse"), None),
    "sections in another order": (IN + DATA + OUT + SGD + MODEL, None),
    "keys and words in another case": (GOOD.replace("loss = mse", "LOSS = MSE").replace("type", "TYPE"), None),
    "shape on the first layer": (MODEL + dense("a", input_shape="1:1:3") + dense("b"), None),
    "relu and mse": (MODEL + IN + dense("a", activation="relu"), None),
    "softmax and cross": ("[Model]\nloss = cross\n" + IN + dense("a", activation="softmax"), None),
    "old data": (GOOD + "[DataSet]\nTrainData = a\nValidData = b\nTestData = c\nBufferSize = 1\n", None),
    "old data without the optional files": (GOOD + "[Dataset]\nTrainData = a\n", None),
    "new data": (GOOD + DATA + DATA.replace("train", "valid") + DATA.replace("train", "test"), None),
    "two keys in a line": (GOOD.replace("unit = 2", "unit = 2 | activation = relu"), None),
    "blanks and brackets": (GOOD.replace("1:1:3", "[ 1 : 1 : 3 ]"), None),
    "old optimizer": ("[Model]\noptimizer = sgd\nlearning_rate = 1\nloss = mse\n" + IN + OUT, None),
    "no model": (SGD + IN + OUT, "model.ini: a [Model] section is required"),
    "empty model": ("[Model]\n" + SGD + IN + OUT, "model.ini:1: [Model] the section is empty"),
    "empty optimizer": (MODEL + "[Optimizer]\n" + IN + OUT, "[Optimizer] the section is empty"),
    "empty data": (GOOD + "[train_set]\n", "[train_set] the section is empty"),
    "empty layer": (GOOD + "[more]\n", "[more] the section is empty"),
    "no layers": (MODEL + SGD, "model.ini: the model has no layers"),
    "no layers but data": (MODEL + SGD + DATA, "model.ini: the model has no layers"),
    "empty value": (GOOD.replace("batch_size = 4", "batch_size ="), "3: [Model] batch_size: expected a value"),
    "no key": (GOOD + "=3\n", "13: [out] expected 'key = value'"),
    "unknown optimizer": (GOOD.replace("sgd", "wrong"), "5: [Optimizer] type: unknown optimizer 'wrong'"),
    "negative rate": (GOOD.replace("0.1", "-0.1"), "6: [Optimizer] learning_rate: expected a number of at least 0"),
    "unknown layer": (GOOD + layer("x", "asdf"), "14: [x] type: unknown layer or loss 'asdf'"),
    "layer without type": (GOOD + "[x]\nunit = 2\n", "13: [x] type: required, expected the keyword of a layer"),
    "unknown loss": (GOOD.replace("mse", "none"), "2: [Model] loss: expected one of cross, "),
    "cross and relu": (
        "[Model]\nloss = cross\n" + IN + dense("a", activation="relu"),
        "2: [Model] loss: cross needs softmax or sigmoid as the last activation, but 'a' ends with relu",
    ),
    "cross as a layer": (GOOD + layer("l", "cross"), "14: [l] type: 'cross' is a word of [Model] loss"),
    "two optimizers": (GOOD.replace("loss", "optimizer = sgd\nloss"), "2: [Model] optimizer: the optimizer stands in"),
    "no training data": (GOOD + "[DataSet]\nValidData = a\n", "13: [DataSet] traindata: required, expected a path"),
    "data without type": (GOOD + "[test_set]\npath = a\n", "13: [test_set] type: required"),
    "data of another type": (GOOD + "[test_set]\ntype = fil\npath = a\n", "14: [test_set] type: unknown type of data"),
    "data of no type": (
        GOOD + "[test_set]\ntype = dat\npath = a\n",
        "14: [test_set] type: unknown type of data 'dat'; known are csv, file, idx, image_folder, npy, npz",
    ),
    "data without path": (GOOD + "[test_set]\ntype = file\n", "13: [test_set] path: required, expected a path"),
    "no batch in memory": (GOOD + DATA + "buffer_size = 0\n", "16: [train_set] buffer_size: expected a positive"),
    "schedule without type": (
        GOOD + "[LearningRateScheduler]\nlearning_rate = 1\n",
        "13: [LearningRateScheduler] type",
    ),
    "schedule without rate": (GOOD + "[LearningRateScheduler]\ntype = constant\n", "learning_rate: required"),
    "schedule without optimizer": (MODEL + CONSTANT + IN + OUT, "a schedule needs an optimizer: add [Optimizer]"),
    "decay without steps": (GOOD.replace("0.1", "0.1\ndecay_rate = 0.9"), "4: [Optimizer] decay_steps: required"),
    "decay and schedule": (
        GOOD.replace("0.1", "0.1\ndecay_rate = 0.9\ndecay_steps = 3") + CONSTANT,
        "7: [Optimizer] decay_rate: not together with [LearningRateScheduler] on line 15",
    ),
    "missing backbone": (GOOD + "[b]\nbackbone = none.ini\n", "14: [b] backbone: 'none.ini' cannot be read: No such"),
    "backbone of another kind": (GOOD + "[b]\nbackbone = a.tflite\n", "14: [b] backbone: expected a file that ends in"),
    "first layer without shape": (MODEL + OUT, "4: [out] input_shape: the first layer must be an input"),
    "input without shape": (MODEL + IN + layer("b", "input") + OUT, None),
    "reads nobody": (GOOD + dense("x", "nobody"), "16: [x] input_layers: there is no layer 'nobody'"),
    "name with a blank": (GOOD + dense("a b"), "13: [a b] expected a name"),
    "junk behind a number": (GOOD.replace("batch_size = 4", "batch_size = 4x"), "3: [Model] batch_size: expected a"),
    "wrapped negative": (
        GOOD.replace("unit = 2", "unit = -2"),
        "12: [out] unit: expected a positive integer, got '-2'",
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_u010_verdicts(name: str) -> None:
    """U010: good and bad model files."""
    text, expected = TABLE[name]
    found = messages(text)
    if expected is None:
        assert found == []
    else:
        assert any(expected in message for message in found), found


def test_u010_loss_as_key_and_as_layer_are_the_same_graph() -> None:
    key = wiring(load_text(MODEL + SGD + IN + OUT))
    section = wiring(load_text("[Model]\nbatch_size = 4\n" + SGD + IN + OUT + layer("out/loss", "mse")))
    assert key == section


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[Model]\nType = NeuralNetwork\n" + IN, []),
        (
            "[Model]\nepochs = 2\n" + IN + "engine = GPU\nweight_dtype = fp16\n",
            ["6: [in] engine: has no effect; cpu is in force", "7: [in] weight_dtype: has no effect; FP32 is in force"],
        ),
        ("[Model]\nepochs = 2\n" + IN + "engine = cpu\nweight_dtype = FP32\n", []),
        (
            "[Model]\nType = network\n" + IN,
            [
                "2: [Model] type: 'network' has no effect; one of knn, logistic_regression, neuralnetwork, "
                "regression has; did you mean 'neuralnetwork'?"
            ],
        ),
        ("[Model]\ntensor_format = NHWC\n" + IN, ["2: [Model] tensor_format: has no effect; NCHW is in force"]),
        (
            "[Model]\nLearning_rate = 1\nloss = mse\n[Optimizer]\ntype = sgd\n" + IN + OUT,
            ["2: [Model] learning_rate: has no effect in [Model]; sgd with learning_rate = 0.0001 is in force"],
        ),
        (
            "[Model]\nbeta1 = 1\ndecay_rate = 2\nloss = mse\n" + SGD + CONSTANT + IN + OUT,
            [
                "7: [Optimizer] learning_rate: has no effect; [LearningRateScheduler] constant with "
                "learning_rate = 0.5 is in force",
                "2: [Model] beta1: has no effect in [Model]; none is in force",
                "3: [Model] decay_rate: has no effect in [Model]; [LearningRateScheduler] constant with "
                "learning_rate = 0.5 is in force",
            ],
        ),
        (
            GOOD + "[DataSet]\nTrainData = a\nLabelData = b\n" + DATA,
            [
                "15: [DataSet] labeldata: has no effect; labels stand behind the inputs of each sample",
                "14: [DataSet] traindata: has no effect; [train_set] is in force",
            ],
        ),
        (
            GOOD + "[x]\nname = y\ntype = flatten\n",
            ["14: [x] name: has no effect; the name of the section is the name"],
        ),
        (GOOD + layer("l", "mse"), ["2: [Model] loss: has no effect; every output has a loss of its own"]),
        (GOOD.replace("0.1", "1e-1f"), ["6: [Optimizer] learning_rate: the suffix 'f' of '1e-1f' is ignored"]),
    ],
)
def test_keys_without_effect_are_warned_of(text: str, expected: list[str]) -> None:
    found = notices(text)
    assert len(found) == len(expected), found
    for one, other in zip(found, expected, strict=True):
        assert one.startswith(f"warning: model.ini:{other}")


def test_good_files_have_no_warning() -> None:
    assert notices(GOOD) == []
    assert notices(MODEL + PLAIN_SGD + CONSTANT + IN + OUT) == []


def test_older_forms_are_understood() -> None:
    spec = load_text("[Model]\nOptimizer = adam\nlearning_rate = 0.01\nbeta1 = 0.8\nmemory_swap_path = x\n" + IN)
    assert spec.optimizer is not None
    assert spec.optimizer.texts() == {"learning_rate": "0.01", "beta1": "0.8"}
    assert spec.scheduler is None
    assert spec.model.fsu_path == "x"
    decay = "decay_rate = 0.5\ndecay_steps = 10\n"
    for text in (
        "[Model]\noptimizer = adam\nlearning_rate = 0.01\n" + decay,
        MODEL + SGD.replace("0.1", "0.01") + decay,
    ):
        spec = load_text(text + IN + OUT)
        assert spec.scheduler is not None
        assert spec.scheduler.keyword == "exponential"
        assert spec.scheduler.texts() == {"learning_rate": "0.01", "decay_rate": "0.5", "decay_steps": "10"}
    spec = load_text(MODEL + PLAIN_SGD + decay + IN + OUT)
    assert spec.scheduler is not None
    assert spec.scheduler.texts()["learning_rate"] == "0.0001"


def test_old_and_new_data_sections() -> None:
    old = "[DataSet]\nTrainData = a.dat\nValidData = b.dat\nTestData = c.dat\nBufferSize = 7\n"
    spec = load_text(GOOD + old + DATA.replace("train.dat", "new.dat"))
    assert {use: (s.settings.path, s.settings.buffer_size) for use, s in spec.datasets.items()} == {
        "train": ("new.dat", 1),
        "valid": ("b.dat", 7),
        "test": ("c.dat", 7),
    }


def test_relative_data_is_looked_for_beside_the_file_then_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, work = tmp_path / "home [1] % $x 'q'", tmp_path / "work \u00e9"
    home.mkdir()
    work.mkdir()
    monkeypatch.chdir(work)
    (home / "train \ud55c.dat").touch()
    for folder in (home, work):
        (folder / "valid=1.dat").touch()
    (work / "test.dat").touch()
    data = "[train_set]\ntype = file\npath = train \ud55c.dat\n[valid_set]\ntype = file\npath = valid=1.dat\n"
    data += "[test_set]\ntype = file\npath = test.dat\n"
    (home / "model.ini").write_text(GOOD + data, encoding="utf-8")
    spec = load_ini(home / "model.ini")
    assert [section.paths["path"] for section in spec.datasets.values()] == [
        home / "train \ud55c.dat",
        home / "valid=1.dat",
        work / "test.dat",
    ]
    absolute = load_text(GOOD + f"[train_set]\ntype = file\npath = {work / 'test.dat'}\n", home)
    assert absolute.datasets["train"].paths["path"] == work / "test.dat"
    missing = load_text(GOOD + "[train_set]\ntype = file\npath = nowhere.dat\n", home)
    assert missing.datasets["train"].paths["path"] == home / "nowhere.dat"


@pytest.mark.parametrize(
    ("name", "hint"),
    [("trainset", "train_set"), ("validation_set", "valid_set"), ("Optimiser", "Optimizer"), ("Models", "Model")],
)
def test_a_misspelled_section_is_not_just_an_unknown_layer(name: str, hint: str) -> None:
    found = messages(GOOD + f"[{name}]\ntype = file\npath = a\n")
    assert any(f"did you mean the section [{hint}]?" in message for message in found), found


def test_obsolete_words_name_those_of_today() -> None:
    text = """[Network]
Type = NeuralNetwork
Layers = a \\
         b
Epoch = 3
Cost = msr
minibatch = 2
[a]
Type = InputLayer
HiddenSize = 4
[b]
Type = FullyConnectedLayer
HiddenSize = 3
Unit = 3
Weight_Ini = zeros
"""
    assert messages(text) == [
        "model.ini:1: [Network] obsolete; today it is [Model]",
        "model.ini:3: [Network] layers: obsolete; today it is the order of the sections",
        "model.ini:5: [Network] epoch: obsolete; today it is epochs",
        "model.ini:6: [Network] cost: obsolete; today it is loss",
        "model.ini:7: [Network] minibatch: obsolete; today it is batch_size",
        "model.ini:9: [a] type: 'InputLayer' is obsolete; today it is input",
        "model.ini:13: [b] hiddensize: obsolete; today it is unit",
        "model.ini:15: [b] weight_ini: obsolete; today it is weight_initializer",
    ]


def test_the_older_output_section_is_a_multiout() -> None:
    text = MODEL + IN + layer("o", "output", input_layers="in") + dense("a", "o(0)") + dense("b", "o(1)")
    assert wiring(load_text(text))["o"] == "multiout in"
    several = MODEL + IN + dense("a") + dense("b", "in") + layer("o", "output", input_layers="a,b")
    several += dense("c", "o(0)") + dense("d", "o(1)")
    assert wiring(load_text(several))["o"] == "identity a b"


def test_types_of_tensors_that_nobody_computes_with_are_refused() -> None:
    (message,) = messages("[Model]\nmodel_tensor_type = Q4_0-FP32\n" + IN)
    assert message == (
        "model.ini:1: [Model] model_tensor_type: Q4_0-FP32 is not supported by this version; "
        "expected one of FP16-FP16, FP16-FP32, FP32-FP16, FP32-FP32"
    )
    assert notices("[Model]\nmodel_tensor_type = fp32-fp32\n" + IN) == []
    (notice,) = notices("[Model]\nmodel_tensor_type = fp16-fp16\n" + IN)
    assert notice == "warning: model.ini:2: [Model] model_tensor_type: has no effect; FP32-FP32 is in force"


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DescriptionError, match="cannot be read: No such file"):
        load_ini(tmp_path / "none.ini")


@pytest.mark.parametrize(
    ("text", "size"),
    [("64MB", 64 << 20), ("1.5 GiB", 3 << 29), ("100000", 100000), ("2kb", 2048)],
)
def test_memory_budget(text: str, size: int) -> None:
    spec = load_text(f"[Model]\nmemory_budget = {text}\n" + IN)
    assert spec.model.memory_budget == size
    written = spec.model.texts()["memory_budget"]
    assert load_text(f"[Model]\nmemory_budget = {written}\n" + IN).model.memory_budget == size


class _Teacher(Configurable):
    """A section of a room that stands above this one."""

    keyword = "teacher"

    model = path(doc="Weights of the teacher.")
    temperature = number(1.0, above=0.0, doc="Softens both outputs.")


def test_sections_of_higher_rooms_are_registered(tmp_path: Path) -> None:
    text = GOOD + "[Teacher]\nmodel = t.bin\ntemperature = {}\n"
    assert any("[Teacher] type: required" in message for message in messages(text.format(2)))
    SECTIONS.register("teacher", _Teacher)
    try:
        spec = load_text(text.format(2), tmp_path)
        found = spec.sections["teacher"]
        assert isinstance(found.settings, _Teacher)
        assert (found.settings.temperature, found.paths) == (2.0, {"model": tmp_path / "t.bin"})
        assert spec.datasets == {}
        assert [made.name for made in spec.layers] == ["in", "out"]
        assert messages(text.format(0)) == ["model.ini:15: [Teacher] temperature: expected a number above 0, got '0'"]
        assert load_text(to_text(spec)).sections["teacher"].settings.texts() == found.settings.texts()
    finally:
        SECTIONS.unregister("teacher")
