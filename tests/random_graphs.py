"""Random networks of the layer catalogue, as INI text: chains, branches, splits, shared weights, frozen layers, losses.

A candidate section that the package refuses with its own error is thrown away, so that no shape rule is repeated here;
any other exception comes through to the test.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from nntrainer_py.errors import DescriptionError
from nntrainer_py.graph.description import load_text
from nntrainer_py.graph.lower import finalize
from nntrainer_py.graph.order import arrange
from nntrainer_py.graph.spec import ModelSpec

BATCH = 4
MOST_VALUES = 1500  # of a sample in one tensor
ACTIVATIONS = (
    "tanh", "sigmoid", "relu", "swish", "gelu", "tanh_gelu", "sigmoid_gelu", "softmax", "softplus", "leaky_relu",
    "elu", "selu", "mish",
)  # fmt: skip
OPTIMIZERS = ("sgd", "sgd|momentum = 0.9", "adam", "adamw", "rmsprop", "adagrad", "lion", "lamb")
ROW_LOSSES = ("cross_softmax", "focal", "kld")
LOSSES = ("mse", "mae", "huber", "cross_sigmoid", "hinge", "cosine_distance", *ROW_LOSSES)
Shape = tuple[int, ...]


@dataclass
class Net:
    """A network under construction: its sections in order, and every output with its shape."""

    head: str
    sections: list[str] = field(default_factory=list)
    live: dict[str, Shape] = field(default_factory=dict)  # "name" or "name(1)" -> channel, height, width
    used: set[str] = field(default_factory=set)
    indices: dict[str, int] = field(default_factory=dict)  # input of class numbers -> their bound

    @property
    def text(self) -> str:
        return self.head + "".join(self.sections)


def random_net(seed: int) -> Net:
    """The network of that number; the same text every time."""
    rng = Random(seed)
    net = Net(_head(rng))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        _add_input(net, rng)
    wanted, tries = rng.randint(2, 14), 0
    while wanted and tries < 120:
        tries += 1
        name = f"l{len(net.sections)}"
        sources, body = _candidate(net, rng)
        wanted -= _try(net, name, sources, body)
    _close(net, rng)
    return net


def described(text: str) -> ModelSpec:
    """The spec; notices are not of interest here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_text(text, Path("."))


def _head(rng: Random) -> str:
    clip = f"clip_grad_by_norm = {rng.choice((0.05, 1.0))}\n" if rng.random() < 0.2 else ""
    return (
        f"[Model]\ntype = NeuralNetwork\nbatch_size = {BATCH}\n{clip}"
        f"[Optimizer]\ntype = {rng.choice(OPTIMIZERS)}\nlearning_rate = 0.001\n"
    )


def _section(name: str, *lines: str) -> str:
    return f"[{name}]\n" + "".join(f"{line}\n" for line in lines)


def _add_input(net: Net, rng: Random) -> None:
    name = f"l{len(net.sections)}"
    if rng.random() < 0.15:
        size, bound = rng.randint(1, 6), rng.randint(2, 9)
        net.sections.append(_section(name, "type = input", f"input_shape = 1:1:{size}"))
        net.indices[name] = bound
        embedding = f"l{len(net.sections)}"
        net.used.add(name)
        net.sections.append(
            _section(
                embedding, "type = embedding", f"in_dim = {bound}", f"out_dim = {rng.randint(1, 9)}",
                f"input_layers = {name}",
            )
        )  # fmt: skip
        width = int(re.findall(r"out_dim = (\d+)", net.sections[-1])[0])
        net.live[embedding] = (1, size, width)
        return
    flat, sequence = (1, 1, rng.randint(1, 40)), (1, rng.randint(1, 9), rng.randint(1, 12))
    shape = rng.choice((flat, sequence, _image(rng), _image(rng)))
    extra = rng.choice(("", "", "", "normalization = true", "standardization = true"))
    net.sections.append(
        _section(name, "type = input", "input_shape = {}:{}:{}".format(*shape), *([extra] * bool(extra)))
    )
    net.live[name] = shape


def _image(rng: Random) -> Shape:
    return rng.choice((1, 2, 3, 4, 8)), rng.randint(3, 11), rng.randint(3, 11)


def _try(net: Net, name: str, sources: list[str], body: list[str]) -> bool:
    """Add the section when the network with it is a good one."""
    section = _section(name, *body, *([f"input_layers = {', '.join(sources)}"] if sources else []))
    try:
        spec = described(net.text + section)
        nodes = arrange(spec, False).nodes
        table = finalize(nodes, BATCH, True)
    except DescriptionError:
        return False
    # an activation of the section is a node of its own that carries on
    rows = [row for row in table if row.name == name or row.name.startswith(f"{name}/")]
    rows = [row for row in rows if "generated_out" not in row.name]
    shapes = [(dim.channel, dim.height, dim.width) for dim in rows[-1].outputs]
    if not shapes or any(prod(shape) > MOST_VALUES for shape in shapes):
        return False
    net.sections.append(section)
    net.used.update(sources)
    for k, shape in enumerate(shapes):
        net.live[name if k == 0 else f"{name}({k})"] = shape
    return True


def _candidate(net: Net, rng: Random) -> tuple[list[str], list[str]]:
    """Sources and keys of a section that may or may not fit."""
    ends = [key for key in net.live if key not in net.used]
    source = rng.choice(ends if ends and rng.random() < 0.7 else list(net.live))
    c, h, w = net.live[source]
    if rng.random() < 0.22:
        return _joining(net, rng, source)
    word = rng.choice(_SINGLE)
    if word.startswith("preprocess") and f"[{source}]\ntype = input" not in net.text:
        word = "negative"  # these pass no derivative back
    keys = _keys(word, rng, c, h, w)
    body = [f"type = {word}", *keys]
    if rng.random() < 0.15 and word != "activation":
        body.append(f"activation = {rng.choice(ACTIVATIONS)}")
    if rng.random() < 0.12:
        body.append("trainable = false")
    if rng.random() < 0.05:
        body.append("flatten = true")
    twin = _shared(net, rng, word)
    if twin:
        body = twin
    return [source], body


def _joining(net: Net, rng: Random, source: str) -> tuple[list[str], list[str]]:
    shape = net.live[source]
    same = [key for key in net.live if net.live[key] == shape and rng.random() < 0.8] or [source]
    word = rng.choice(
        ("addition", "add", "subtract", "multiply", "concat", "matmul", "attention", "multi_head_attention")
    )
    if word == "addition":
        return rng.sample(same, min(len(same), rng.randint(1, 3))), ["type = addition"]
    if word == "concat":
        others = [rng.choice(list(net.live)) for _ in range(rng.randint(1, 2))]
        return [source, *others], ["type = concat", f"axis = {rng.randint(1, 3)}"]
    if word == "attention":
        other = rng.choice(same)
        return [source, other], ["type = attention", f"scaled_dot_product = {rng.choice(('true', 'false'))}"]
    if word == "multi_head_attention":
        heads = rng.randint(1, 3)
        rate = f"dropout_rate = {rng.choice((0, 0, 0.3))}"
        return [source, rng.choice(same), rng.choice(same)], ["type = " + word, f"num_heads = {heads}", rate]
    if word == "matmul":
        return [source, rng.choice(list(net.live))], ["type = matmul"]
    return [source, rng.choice(same)], [f"type = {word}"]


def _shared(net: Net, rng: Random, word: str) -> list[str] | None:
    """The keys of an earlier section of that type with shared_from, where there is one."""
    if word not in ("fully_connected", "conv2d", "layer_normalization", "lstm") or rng.random() < 0.6:
        return None
    found = [text for text in net.sections if f"type = {word}\n" in text and "shared_from" not in text]
    if not found:
        return None
    lines = rng.choice(found).strip().split("\n")
    kept = [line for line in lines[1:] if not line.startswith("input_layers")]
    return [*kept, f"shared_from = {lines[0][1:-1]}"]


_SINGLE = (
    "fully_connected", "fully_connected", "fully_connected", "conv2d", "conv2d", "conv2d", "conv1d", "depthwiseconv2d",
    "conv2dtranspose", "pooling2d", "pooling2d", "upsample2d", "flatten", "reshape", "permute", "transpose",
    "reduce_mean", "reduce_sum", "slice", "split", "split", "channel_shuffle", "activation", "activation", "activation",
    "batch_normalization", "batch_normalization", "layer_normalization", "rmsnorm", "dropout", "dropout", "identity",
    "negative", "sin", "cos", "pow", "multiout", "positional_encoding", "lstm", "gru", "rnn", "swiglu",
    "preprocess_l2norm", "preprocess_flip", "multiout",
)  # fmt: skip


def _pair(rng: Random, low: int, high: int) -> str:
    return f"{rng.randint(low, high)},{rng.randint(low, high)}"


def _padding(rng: Random) -> str:
    return rng.choice(("padding = valid", "padding = same", "padding = 1", f"padding = {_pair(rng, 0, 2)}"))


def _layer_extras(rng: Random) -> list[str]:
    extras = (
        "disable_bias = true", "weight_regularizer = l2norm|weight_regularizer_constant = 0.01", "weight_decay = 0.01",
        "bias_decay = 0.02", "weight_initializer = he_normal", "bias_initializer = ones",
    )  # fmt: skip
    return [extra for extra in extras if rng.random() < 0.12]


def _keys(word: str, rng: Random, c: int, h: int, w: int) -> list[str]:
    """Keys that often fit an input of that shape."""
    flag = rng.choice(("true", "false"))
    axis = rng.randint(1, 3)
    size = (c, h, w)[axis - 1]
    divisors = [d for d in range(1, size + 1) if size % d == 0]
    if word == "fully_connected":
        return [f"unit = {rng.choice((1, 2, 3, 5, 8, 17, 32))}", *_layer_extras(rng)]
    if word == "conv2d":
        groups = rng.choice(("", "", f"groups = {rng.choice((2, 4))}"))
        keys = [f"filters = {rng.choice((1, 2, 4, 7, 8, 16))}", f"kernel_size = {_pair(rng, 1, 4)}", _padding(rng)]
        keys += [f"stride = {_pair(rng, 1, 2)}"] * (rng.random() < 0.4) + [groups] * bool(groups)
        return [*keys, *([f"dilation = {_pair(rng, 1, 2)}"] * (rng.random() < 0.2)), *_layer_extras(rng)]
    if word == "conv1d":
        pad = rng.choice(("valid", "same", "causal", "1"))
        return [f"filters = {rng.randint(1, 8)}", f"kernel_size = {rng.randint(1, 4)}", f"padding = {pad}"]
    if word == "depthwiseconv2d":
        return [f"filters = {c * rng.choice((1, 1, 2))}", f"kernel_size = {_pair(rng, 1, 3)}", _padding(rng)]
    if word == "conv2dtranspose":
        return [f"filters = {rng.randint(1, 5)}", f"kernel_size = {_pair(rng, 1, 3)}", f"stride = {_pair(rng, 1, 2)}"]
    if word == "pooling2d":
        kind = rng.choice(("max", "max", "average", "average", "global_max", "global_average"))
        if kind.startswith("global"):
            return [f"pooling = {kind}"]
        keys = [f"pooling = {kind}", f"pool_size = {_pair(rng, 1, 3)}", f"stride = {_pair(rng, 1, 3)}"]
        return [*keys, *([_padding(rng)] * (rng.random() < 0.4))]
    if word == "upsample2d":
        return [f"upsample = {rng.choice(('nearest', 'bilinear'))}", f"kernel_size = {_pair(rng, 1, 2)}"]
    if word == "reshape":
        shapes = [(a, b, c * h * w // a // b) for a in range(1, 9) for b in range(1, 9) if c * h * w % (a * b) == 0]
        return ["target_shape = {}:{}:{}".format(*rng.choice(shapes))]
    if word == "permute":
        return ["direction = {},{},{}".format(*rng.sample((1, 2, 3), 3))]
    if word == "transpose":
        return [f"axis = {rng.randint(0, 2)}"]
    if word in ("reduce_mean", "reduce_sum"):
        return [f"axis = {axis}"]
    if word == "slice":
        start = rng.randint(1, size)
        return [f"axis = {axis}", f"start_index = {start}", f"end_index = {rng.randint(start, size + 1)}"]
    if word == "split":
        return [f"axis = {axis}", f"split_number = {rng.choice(divisors)}"]
    if word == "channel_shuffle":
        return [f"split_number = {rng.choice((2, 4))}"]
    if word == "activation":
        return [f"activation = {rng.choice(ACTIVATIONS)}"]
    if word == "batch_normalization":
        return [f"momentum = {rng.choice((0.9, 0.5, 0.99))}"] + [f"axis = {axis}"] * (rng.random() < 0.3)
    if word == "layer_normalization":
        return [f"axis = {rng.choice(('3', '3', '1', '2', '2,3', '1,2,3'))}"]
    if word == "dropout":
        return [f"dropout_rate = {rng.choice((0.1, 0.5, 0.0))}"]
    if word == "pow":
        return [f"exponent = {rng.choice((1, 2, 3))}"]
    if word == "positional_encoding":
        return [f"max_timestep = {h + rng.randint(0, 2)}"]
    if word in ("lstm", "gru", "rnn"):
        keys = [f"unit = {rng.randint(1, 9)}", f"return_sequences = {flag}", *_layer_extras(rng)[:1]]
        keys += [f"dropout_rate = {rng.choice((0.2, 0.5))}"] * (rng.random() < 0.3)
        return [*keys, *(["bidirectional = true"] * (word == "lstm" and rng.random() < 0.3))]
    return []


def _close(net: Net, rng: Random) -> None:
    """A loss for most ends, at least for one."""
    ends = [key for key in net.live if key not in net.used]
    rng.shuffle(ends)
    made = 0
    for end in ends:
        if made and rng.random() < 0.12:
            continue  # a branch without a loss
        made += _add_loss(net, rng, end)


def _add_loss(net: Net, rng: Random, end: str) -> bool:
    word = rng.choice(LOSSES)
    if word == "kld":  # takes probabilities
        name = f"l{len(net.sections)}"
        if not _try(net, name, [end], ["type = activation", "activation = softmax"]):
            return False
        end = name
    weight = [f"weight = {rng.choice((0.5, 2))}"] if rng.random() < 0.2 else []
    name = f"l{len(net.sections)}"
    section = _section(name, f"type = {word}", *weight, f"input_layers = {end}")
    try:
        arrange(described(net.text + section), True)
    except DescriptionError:
        if not weight:
            return False
        section = _section(name, f"type = {word}", f"input_layers = {end}")
    net.sections.append(section)
    net.used.add(end)
    return True


def label_for(word: str, shape: Shape, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """A label that the loss of that keyword takes."""
    if word in ("cross_softmax", "focal"):
        return np.eye(shape[-1], dtype=np.float32)[rng.integers(0, shape[-1], shape[:-1])]
    if word == "kld":
        raw = np.exp(rng.standard_normal(shape))
        return (raw / raw.sum(axis=-1, keepdims=True)).astype(np.float32)
    if word == "cross_sigmoid":
        return rng.integers(0, 2, shape).astype(np.float32)
    if word == "hinge":
        return (rng.integers(0, 2, shape) * 2 - 1).astype(np.float32)
    return rng.standard_normal(shape).astype(np.float32)
