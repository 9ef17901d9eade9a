"""Small model texts that the tests of this folder share."""

from __future__ import annotations

from nntrainer_py.errors import DescriptionError
from nntrainer_py.graph.description import load_text
from nntrainer_py.graph.passes import realize
from nntrainer_py.graph.spec import LayerSpec, ModelSpec

MODEL = "[Model]\nloss = mse\nbatch_size = 4\n"
SGD = "[Optimizer]\ntype = sgd\nlearning_rate = 0.1\n"
IN = "[in]\ntype = input\ninput_shape = 1:1:3\n"
OUT = "[out]\ntype = fully_connected\nunit = 2\n"
GOOD = MODEL + SGD + IN + OUT


def layer(name: str, keyword: str, **properties: object) -> str:
    """The text of a layer section."""
    lines = [f"[{name}]", f"type = {keyword}", *(f"{key} = {value}" for key, value in properties.items())]
    return "\n".join(lines) + "\n"


def dense(name: str, inputs: str | None = None, **properties: object) -> str:
    """A fully_connected section of two units."""
    given = {"unit": 2, **properties} if inputs is None else {"unit": 2, "input_layers": inputs, **properties}
    return layer(name, "fully_connected", **given)


def messages(text: str, name: str = "model.ini") -> list[str]:
    """Every fault of a text, as the user reads it; none when it is good."""
    try:
        load_text(text, name=name)
    except DescriptionError as error:
        return [str(fault) for fault in error.faults]
    return []


def notices(text: str) -> list[str]:
    """Every warning about a good text."""
    return [str(notice) for notice in load_text(text, name="model.ini").notices]


def wiring(spec: ModelSpec, training: bool = True) -> dict[str, str]:
    """The realized layers in list order, each with its keyword and what it reads."""
    return {made.name: _reads(made) for made in realize(spec, training)}


def _reads(made: LayerSpec) -> str:
    return f"{made.layer.keyword} {' '.join(map(str, made.inputs or ()))}".strip()
