"""Every keyword of the registry, and every other spelling, loads from an INI and from Python, trains and infers.

One row of a table for each. The tables are held together with the registry: a keyword without a row fails.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from keyword_rows import INDICES, LAYER_ROWS

from nntrainer_py import Model
from nntrainer_py.errors import DescriptionError
from nntrainer_py.graph.description import load_text
from nntrainer_py.layers.functions import ACTIVATIONS
from nntrainer_py.registry import LAYERS, LOSSES, OPTIMIZERS, SCHEDULERS
from nntrainer_py.tensor.initializers import INITIALIZERS

BATCH = 3
#: not layers by themselves: a group of layers (tests/graph/test_unroll.py), and what ``distribute = true`` makes
ELSEWHERE = ("recurrent", "time_dist")
#: not trained: running state, a constant, and what a softmax over keys cancels
CONSTANT = {"tensor": {"it:table"}, "multi_head_attention": {"it:key_fc_bias"}}
#: layers with more than one output that has to be read
SEVERAL = {"split": 2, "lstmcell": 2, "zoneout_lstmcell": 2, "mol_attention": 2}
LABELLED = ("centroid_knn", "nearest_neighbours")

#: keyword -> further keys, and how a label row of three is made
LOSS_ROWS: dict[str, tuple[str, str]] = {
    "constant_derivative": ("", "real"),
    "cosine_distance": ("", "real"),
    "cross_sigmoid": ("label_smoothing = 0.1\nclass_weights = 1,2,3", "one hot"),
    "cross_softmax": ("label_smoothing = 0.1\nclass_weights = 1,2,3\nweight = 2", "one hot"),
    "focal": ("gamma = 3", "one hot"),
    "hinge": ("", "signs"),
    "huber": ("delta = 0.5", "real"),
    "kld": ("", "one hot"),
    "mae": ("", "real"),
    "mse": ("weight = 0.5", "real"),
}
OPTIMIZER_ROWS: dict[str, str] = {
    "adagrad": "",
    "adam": "torch_ref = true\nbeta1 = 0.8\nbeta2 = 0.9\nepsilon = 1e-6",
    "adamw": "weight_decay = 0.1",
    "lamb": "weight_decay = 0.1",
    "lion": "weight_decay = 0.1",
    "rmsprop": "",
    "sgd": "momentum = 0.9\nnesterov = true",
}
SCHEDULER_ROWS: dict[str, str] = {
    "constant": "learning_rate = 0.1",
    "cosine": "max_learning_rate = 0.1\nmin_learning_rate = 0.01\ndecay_steps = 10\nwarmup_steps = 3",
    "exponential": "learning_rate = 0.1\ndecay_rate = 0.9\ndecay_steps = 5",
    "linear": "max_learning_rate = 0.1\nmin_learning_rate = 0.01\ndecay_steps = 10",
    "one_cycle": "max_learning_rate = 0.1\ndecay_steps = 10",
    "polynomial": "max_learning_rate = 0.1\nmin_learning_rate = 0.01\ndecay_steps = 10\npower = 2",
    "reduce_on_plateau": "learning_rate = 0.1\nfactor = 0.5\npatience = 1",
    "step": "learning_rate = 0.1, 0.01\niteration = 2",
}
HEAD = f"[Model]\nbatch_size = {BATCH}\n[Optimizer]\ntype = sgd\nlearning_rate = 0.05\n"


def layer_text(word: str, keyword: str) -> str:
    """The layer between its inputs and a head that learns, with one loss."""
    shapes, properties = LAYER_ROWS[keyword]
    names = [f"in{i}" for i in range(len(shapes.split()))]
    text = HEAD.replace("[Optimizer]", f"input_layers = {', '.join(names)}\n[Optimizer]" if names else "[Optimizer]")
    if keyword == "input":
        return (
            text.replace("in0", "it")
            + f"[it]\ntype = {word}\ninput_shape = {shapes}\n{properties}\n{head('it', keyword)}"
        )
    for name, shape in zip(names, shapes.split(), strict=True):
        text += f"[{name}]\ntype = input\ninput_shape = {shape}\n"
    if not names:  # a constant: something must be fed, too
        text += "[in0]\ntype = input\ninput_shape = 2:3:4\n[both]\ntype = multiply\ninput_layers = in0, it\n"
        return text + f"[it]\ntype = {word}\n{properties}\n{head('both', keyword)}"
    return text + f"[it]\ntype = {word}\ninput_layers = {', '.join(names)}\n{properties}\n{head('it', keyword)}"


def head(last: str, keyword: str) -> str:
    if keyword in LABELLED:
        return ""
    text = f"[flat]\ntype = flatten\ninput_layers = {last}\n[head]\ntype = fully_connected\nunit = 2\n"
    for output in range(1, SEVERAL.get(keyword, 1)):
        text += f"[flat{output}]\ntype = flatten\ninput_layers = {last}({output})\n"
        text += f"[head{output}]\ntype = fully_connected\nunit = 2\ninput_layers = flat{output}\n"
        text += f"[sum{output}]\ntype = add\ninput_layers = head, head{output}\n"
    return text + "[loss]\ntype = mse\n"


def feeds(model: Model, keyword: str, batch: int = BATCH) -> list[Any]:
    rng = np.random.default_rng(1)
    lowered = model.lowered("predict", batch)
    graph = model.compiled.graph("predict")
    arrays = []
    for position, place in enumerate(graph.input_order):
        shape = lowered.inputs[place].shape
        if INDICES.get(keyword) == position:
            arrays.append(rng.integers(0, 5, shape).astype(np.float32))
        else:
            arrays.append(rng.uniform(0.2, 1.2, shape).astype(np.float32))
    return arrays


def train_and_infer(model: Model, keyword: str) -> tuple[float, Any]:
    x = feeds(model, keyword)
    label = model.lowered("train", BATCH).labels[0].shape
    if keyword in LABELLED:
        y = np.eye(label[-1], dtype=np.float32)[np.arange(BATCH) % label[-1]].reshape(label)
    else:
        y = np.ones(label, np.float32)
    before = {name: array.copy() for name, array in model.weights().items()}
    loss = model.train_on_batch(x, y)
    assert np.isfinite(loss)
    moved = [name for name, array in model.weights().items() if not np.array_equal(array, before[name])]
    assert moved
    if keyword not in LABELLED:
        assert {"head:weight", "head:bias"} <= set(moved)
        own = {name for name in before if name.startswith("it:")}
        assert own - set(moved) == CONSTANT.get(keyword, set())
    made = model.predict(x)
    assert np.isfinite(made).all()
    single = model.predict([array[:1] for array in x])
    if getattr(model.spec.layer("it").layer, "normalization", False) is not True:  # over the whole batch by definition
        np.testing.assert_array_equal(single[0], made[0])
    return loss, made


def test_the_tables_have_a_row_for_every_keyword() -> None:
    for rows, registry in (
        ([*LAYER_ROWS, *ELSEWHERE], LAYERS), (LOSS_ROWS, LOSSES), (OPTIMIZER_ROWS, OPTIMIZERS),
        (SCHEDULER_ROWS, SCHEDULERS),
    ):  # fmt: skip
        assert {word for word in registry.words() if registry.target(word)} == set(rows), registry.what


@pytest.mark.parametrize("keyword", list(LAYER_ROWS))
def test_layer_from_an_ini(keyword: str) -> None:
    train_and_infer(Model(load_text(layer_text(keyword.upper(), keyword))), keyword)


@pytest.mark.parametrize("keyword", list(LAYER_ROWS))
def test_layer_from_python(keyword: str) -> None:
    """The same numbers as from an INI."""
    described = Model(load_text(layer_text(keyword, keyword)))
    expected = train_and_infer(described, keyword)
    properties = dict(line.split(" = ") for line in LAYER_ROWS[keyword][1].splitlines())
    layers = []
    for spec in described.spec.layers:
        layer = spec.layer
        if spec.name == "it":
            given = {name: value for name, value in spec.layer.explicit().items() if name not in properties}
            layer = LAYERS.load(keyword)(**given, **properties)
        layers.append((spec.name, layer))
    settings = described.spec.model.explicit()
    built = Model.build(layers, model=settings, optimizer=described.spec.optimizer)
    found = train_and_infer(built, keyword)
    assert found[0] == expected[0]
    np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize("alias", sorted({*LAYERS.aliases()} - {"output", "time_distributed"}))
def test_other_spelling_of_a_layer(alias: str) -> None:
    keyword = LAYERS.canonical(alias)
    train_and_infer(Model(load_text(layer_text(alias, keyword))), keyword)


def test_output_of_older_files_is_multiout() -> None:
    model = Model(load_text(layer_text("output", "multiout")))
    assert model.spec.layer("it").layer.keyword == "multiout"
    train_and_infer(model, "multiout")


def test_distribute_and_the_section_that_cannot_be() -> None:
    text = layer_text("fully_connected", "gru").replace("return_sequences", "distribute")
    train_and_infer(Model(load_text(text)), "fully_connected")
    with pytest.raises(DescriptionError, match="write distribute = true in the section of the layer"):
        Model(load_text(layer_text("time_distributed", "sin"))).lowered()


@pytest.mark.parametrize("word", [*ACTIVATIONS, "quick_gelu"])
@pytest.mark.parametrize("form", ["layer", "property"])
def test_activation(word: str, form: str) -> None:
    text = HEAD + "[in0]\ntype = input\ninput_shape = 2:3:4\n"
    if form == "layer":
        text += f"[it]\ntype = activation\nactivation = {word}\n"
    else:
        text += f"[it]\ntype = fully_connected\nunit = 3\nactivation = {word}\n"
    train_and_infer(Model(load_text(text + head("it", "activation"))), "activation")


def outputs_and_labels(kind: str) -> Any:
    rng = np.random.default_rng(2)
    return {
        "real": rng.normal(size=(BATCH, 3)),
        "one hot": np.eye(3)[rng.integers(0, 3, BATCH)],
        "signs": rng.choice([-1.0, 1.0], (BATCH, 3)),
    }[kind].astype(np.float32)


#: as a section cosine is the layer cos; the word of [Model] for both cross entropies is cross
LOSS_FORMS = [
    *((word, "section") for word in LOSS_ROWS),
    *((word, "model") for word in [*LOSS_ROWS, "cosine"] if word not in ("cross_softmax", "cross_sigmoid")),
]


@pytest.mark.parametrize(("keyword", "form"), LOSS_FORMS)
def test_loss(keyword: str, form: str) -> None:
    properties, kind = LOSS_ROWS[LOSSES.canonical(keyword)]
    activation = "activation = softmax\n" if keyword == "kld" else ""
    text = HEAD + f"[in0]\ntype = input\ninput_shape = 4\n[head]\ntype = fully_connected\nunit = 3\n{activation}"
    if form == "model":
        text = text.replace("batch_size", f"loss = {keyword}\nbatch_size")
    else:
        text += f"[loss]\ntype = {keyword}\n{properties}\n"
    model = Model(load_text(text))
    x, y = np.random.default_rng(3).normal(size=(BATCH, 4)).astype(np.float32), outputs_and_labels(kind)
    first = model.train_on_batch(x, y)
    for _ in range(60):
        last = model.train_on_batch(x, y)
    assert last < first or keyword == "constant_derivative"
    assert np.isfinite(model.predict(x)).all()
    assert model.evaluate(x, y)["loss"] <= last + 1e-6 or keyword == "constant_derivative"


@pytest.mark.parametrize(
    ("keyword", "schedule"), [*((word, None) for word in OPTIMIZER_ROWS), *(("sgd", word) for word in SCHEDULER_ROWS)]
)
def test_optimizer_and_schedule(keyword: str, schedule: str | None) -> None:
    text = f"[Model]\nbatch_size = {BATCH}\nloss = mse\n[Optimizer]\ntype = {keyword}\n{OPTIMIZER_ROWS[keyword]}\n"
    if schedule is not None:
        text += f"[LearningRateScheduler]\ntype = {schedule}\n{SCHEDULER_ROWS[schedule]}\n"
    text += "[in0]\ntype = input\ninput_shape = 4\n[head]\ntype = fully_connected\nunit = 3\n"
    model = Model(load_text(text))
    x, y = np.random.default_rng(3).normal(size=(2 * BATCH, 4)).astype(np.float32), np.zeros((2 * BATCH, 3), np.float32)
    result = model.train(x, y, valid=(x, y), epochs=3, progress=False)
    rows = list(result.history)
    assert len(rows) == 3
    assert all(np.isfinite(row.loss) and row.learning_rate > 0 for row in rows)


@pytest.mark.parametrize("word", [word for word in INITIALIZERS if word != "none"])
def test_initializer(word: str) -> None:
    text = HEAD + "[in0]\ntype = input\ninput_shape = 4\n[head]\ntype = fully_connected\nunit = 3\n"
    text += f"weight_initializer = {word}\nbias_initializer = {word}\n[loss]\ntype = mse\n"
    weights = [Model(load_text(text)).weights()["head:weight"].copy() for _ in range(2)]
    np.testing.assert_array_equal(*weights)
    if word not in ("zeros", "ones"):
        other = Model(load_text(text.replace("batch_size", "seed = 9\nbatch_size"))).weights()["head:weight"]
        assert not np.array_equal(other, weights[0])
