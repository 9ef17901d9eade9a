"""Which class stands behind which keyword.

The tables are explicit and sorted: keyword -> ``"module:Class"``, imported on first use. One keyword is one file, and a
test holds folders and tables together. The decorators at the end are for users' plugins only; a plugin cannot take a
keyword that exists. Keywords are compared without case.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from nntrainer_py.errors import UsageError, did_you_mean, quoted

_LISTED = 10  # so many keywords at most are listed for an unknown one

C = TypeVar("C", bound=type)


class Registry:
    """The keywords of one kind of thing (``what``, as messages call it).

    ``aliases`` maps other spellings to keywords. ``known`` are NNTrainer's keywords of this kind, so that one which is
    not in the table is reported as missing here rather than as a typing error.
    """

    def __init__(
        self, what: str, table: Mapping[str, str], aliases: Mapping[str, str] | None = None, known: tuple[str, ...] = ()
    ) -> None:
        self.what = what
        self._table: dict[str, str] = dict(table)
        self._aliases = dict(aliases or {})
        self._known = frozenset(known)
        self._loaded: dict[str, type[Any]] = {}
        self.registrations = 0  # how often `register` added a class, be it the same again

    def words(self) -> list[str]:
        """Every keyword, sorted, plugins included, aliases not."""
        return sorted({*self._table, *self._loaded})

    def aliases(self) -> dict[str, str]:
        """Other accepted spellings and the keyword that each stands for, as far as the keyword exists."""
        return {alias: word for alias, word in self._aliases.items() if self._has(word)}

    def target(self, word: str) -> str | None:
        """The ``"module:Class"`` row of a keyword; None for a plugin's keyword or an unknown one."""
        return self._table.get(self.canonical(word))

    def canonical(self, word: str) -> str:
        """The keyword behind a spelling: lower case, aliases resolved; an unknown word only lower-cased."""
        lowered = word.strip().lower()
        return lowered if self._has(lowered) else self._aliases.get(lowered, lowered)

    def __contains__(self, word: str) -> bool:
        return self._has(self.canonical(word))

    def _has(self, keyword: str) -> bool:
        return keyword in self._table or keyword in self._loaded

    def load(self, word: str) -> type[Any]:
        """The class of a keyword; `UsageError` with the nearest known word for an unknown one."""
        return lookup(word, self)

    def _load(self, keyword: str) -> type[Any]:
        if keyword not in self._loaded:
            module, _, name = self._table[keyword].partition(":")
            self._loaded[keyword] = getattr(importlib.import_module(module), name)
        return self._loaded[keyword]

    def register(self, word: str, cls: type[Any]) -> None:
        """Add a user's class under a new keyword; `UsageError` when the keyword is taken by another class."""
        keyword = word.strip().lower()
        if not keyword or not keyword.isprintable() or any(c.isspace() for c in keyword):
            raise UsageError(f"a {self.what} needs a keyword without blanks, got {quoted(word)}")
        if keyword in self and not _same(self._loaded.get(keyword), cls):
            raise UsageError(f"the {self.what} {quoted(keyword)} exists already; choose another keyword")
        if hasattr(cls, "keyword") and not vars(cls).get("keyword"):
            cls.keyword = keyword  # not that of a class it derives from
        self._loaded[keyword] = cls
        self.registrations += 1
        if not vars(cls).get("keyword"):
            cls.keyword = keyword  # a user's class need not repeat it

    def unregister(self, word: str) -> None:
        """Take a user's class out again; a built-in keyword stays."""
        keyword = word.strip().lower()
        if keyword not in self._table:
            self._loaded.pop(keyword, None)

    def lacks(self, word: str) -> bool:
        """Whether NNTrainer has this keyword and this package does not."""
        keyword = self.canonical(word)
        return keyword in self._known and not self._has(keyword)


def lookup(word: str, *registries: Registry) -> type[Any]:
    """The class of a keyword in the first registry that has it; `UsageError` with the nearest word of all otherwise."""
    for registry in registries:
        if word in registry:
            return registry._load(registry.canonical(word))
    what = " or ".join(registry.what for registry in registries)
    for registry in registries:
        if registry.lacks(word):
            raise UsageError(f"NNTrainer's {registry.what} {quoted(word)} is not supported by this version")
    spellings = [spelling for r in registries for spelling in (*r.words(), *r.aliases())]
    words = sorted({known for registry in registries for known in registry.words()})
    listed = f"; known are {', '.join(words)}" if 0 < len(words) <= _LISTED else ""
    raise UsageError(f"unknown {what} {quoted(word)}{did_you_mean(word, spellings) or listed}")


def _same(first: type[Any] | None, second: type[Any]) -> bool:
    # a plugin file that is loaded twice defines its class twice
    return first is not None and (first.__module__, first.__qualname__) == (second.__module__, second.__qualname__)


_KNOWN_LAYERS = (
    "activation", "add", "addition", "attention", "backbone_nnstreamer", "backbone_tflite", "batch_normalization",
    "cast", "centroid_knn", "channel_shuffle", "concat", "conv1d", "conv2d", "conv2dtranspose", "cos",
    "depthwiseconv2d", "divide", "dropout", "embedding", "flatten", "fully_connected", "gather", "gru", "grucell",
    "identity", "input", "layer_normalization", "lstm", "lstmcell", "matmul", "mol_attention", "multi_head_attention",
    "multiout", "multiply", "negative", "output", "permute", "pooling2d", "positional_encoding", "pow",
    "preprocess_flip", "preprocess_l2norm", "preprocess_translate", "reduce_mean", "reduce_sum", "reshape", "rmsnorm",
    "rnn", "rnncell", "sin", "slice", "split", "sqrt", "subtract", "swiglu", "tan", "tensor", "tie_word_embedding",
    "time_dist", "transpose", "upsample2d", "weight", "zoneout_lstmcell",
)  # fmt: skip

LAYERS = Registry(
    "layer",
    {
        "activation": "nntrainer_py.layers.activation:Activation",
        "add": "nntrainer_py.layers.add:Add",
        "addition": "nntrainer_py.layers.addition:Addition",
        "attention": "nntrainer_py.layers.attention:Attention",
        "batch_normalization": "nntrainer_py.layers.batch_normalization:BatchNormalization",
        "cast": "nntrainer_py.layers.cast:Cast",
        "centroid_knn": "nntrainer_py.layers.centroid_knn:CentroidKNN",
        "channel_shuffle": "nntrainer_py.layers.channel_shuffle:ChannelShuffle",
        "concat": "nntrainer_py.layers.concat:Concat",
        "conv1d": "nntrainer_py.layers.conv1d:Conv1D",
        "conv2d": "nntrainer_py.layers.conv2d:Conv2D",
        "conv2dtranspose": "nntrainer_py.layers.conv2dtranspose:Conv2DTranspose",
        "cos": "nntrainer_py.layers.cos:Cos",
        "depthwiseconv2d": "nntrainer_py.layers.depthwiseconv2d:DepthwiseConv2D",
        "divide": "nntrainer_py.layers.divide:Divide",
        "dropout": "nntrainer_py.layers.dropout:Dropout",
        "embedding": "nntrainer_py.layers.embedding:Embedding",
        "flatten": "nntrainer_py.layers.flatten:Flatten",
        "fully_connected": "nntrainer_py.layers.fully_connected:FullyConnected",
        "gather": "nntrainer_py.layers.gather:Gather",
        "gru": "nntrainer_py.layers.gru:Gru",
        "grucell": "nntrainer_py.layers.grucell:GruCell",
        "identity": "nntrainer_py.layers.identity:Identity",
        "input": "nntrainer_py.layers.input:Input",
        "layer_normalization": "nntrainer_py.layers.layer_normalization:LayerNormalization",
        "lstm": "nntrainer_py.layers.lstm:Lstm",
        "lstmcell": "nntrainer_py.layers.lstmcell:LstmCell",
        "matmul": "nntrainer_py.layers.matmul:Matmul",
        "mol_attention": "nntrainer_py.layers.mol_attention:MolAttention",
        "multi_head_attention": "nntrainer_py.layers.multi_head_attention:MultiHeadAttention",
        "multiout": "nntrainer_py.layers.multiout:MultiOut",
        "multiply": "nntrainer_py.layers.multiply:Multiply",
        "nearest_neighbours": "nntrainer_py.layers.nearest_neighbours:NearestNeighbours",
        "negative": "nntrainer_py.layers.negative:Negative",
        "permute": "nntrainer_py.layers.permute:Permute",
        "pooling2d": "nntrainer_py.layers.pooling2d:Pooling2D",
        "positional_encoding": "nntrainer_py.layers.positional_encoding:PositionalEncoding",
        "pow": "nntrainer_py.layers.pow:Pow",
        "preprocess_flip": "nntrainer_py.layers.preprocess_flip:PreprocessFlip",
        "preprocess_l2norm": "nntrainer_py.layers.preprocess_l2norm:PreprocessL2Norm",
        "preprocess_translate": "nntrainer_py.layers.preprocess_translate:PreprocessTranslate",
        "recurrent": "nntrainer_py.layers.recurrent_group:RecurrentGroup",
        "reduce_mean": "nntrainer_py.layers.reduce_mean:ReduceMean",
        "reduce_sum": "nntrainer_py.layers.reduce_sum:ReduceSum",
        "reshape": "nntrainer_py.layers.reshape:Reshape",
        "rmsnorm": "nntrainer_py.layers.rmsnorm:RMSNorm",
        "rnn": "nntrainer_py.layers.rnn:Rnn",
        "rnncell": "nntrainer_py.layers.rnncell:RnnCell",
        "sin": "nntrainer_py.layers.sin:Sin",
        "slice": "nntrainer_py.layers.slice:Slice",
        "split": "nntrainer_py.layers.split:Split",
        "sqrt": "nntrainer_py.layers.sqrt:Sqrt",
        "subtract": "nntrainer_py.layers.subtract:Subtract",
        "swiglu": "nntrainer_py.layers.swiglu:SwiGLU",
        "tan": "nntrainer_py.layers.tan:Tan",
        "tensor": "nntrainer_py.layers.tensor:Tensor",
        "time_dist": "nntrainer_py.layers.time_dist:TimeDist",
        "transpose": "nntrainer_py.layers.transpose:Transpose",
        "upsample2d": "nntrainer_py.layers.upsample2d:Upsample2D",
        "weight": "nntrainer_py.layers.weight:Weight",
        "zoneout_lstmcell": "nntrainer_py.layers.zoneout_lstmcell:ZoneoutLstmCell",
    },
    aliases={
        "conv2d_transpose": "conv2dtranspose",
        "cosine": "cos",
        "depthwise_conv2d": "depthwiseconv2d",
        "fully_connected_layer": "fully_connected",
        "fullyconnected": "fully_connected",
        "fullyconnectedlayer": "fully_connected",
        "gru_cell": "grucell",
        "lstm_cell": "lstmcell",
        "output": "multiout",
        "rms_norm": "rmsnorm",
        "rnn_cell": "rnncell",
        "sine": "sin",
        "tangent": "tan",
        "time_distributed": "time_dist",
        "zoneoutlstmcell": "zoneout_lstmcell",
    },
    known=_KNOWN_LAYERS,
)

LOSSES = Registry(
    "loss",
    {
        "constant_derivative": "nntrainer_py.losses.constant_derivative:ConstantDerivative",
        "cosine_distance": "nntrainer_py.losses.cosine_distance:CosineDistance",
        "cross_sigmoid": "nntrainer_py.losses.cross_sigmoid:CrossSigmoid",
        "cross_softmax": "nntrainer_py.losses.cross_softmax:CrossSoftmax",
        "focal": "nntrainer_py.losses.focal:Focal",
        "hinge": "nntrainer_py.losses.hinge:Hinge",
        "huber": "nntrainer_py.losses.huber:Huber",
        "kld": "nntrainer_py.losses.kld:KullbackLeibler",
        "mae": "nntrainer_py.losses.mae:MeanAbsoluteError",
        "mse": "nntrainer_py.losses.mse:MeanSquaredError",
    },
    # as a type of a section "cosine" is the layer cos
    aliases={"cosine": "cosine_distance"},
    known=("constant_derivative", "cross_sigmoid", "cross_softmax", "kld", "mse"),
)

OPTIMIZERS = Registry(
    "optimizer",
    {
        "adagrad": "nntrainer_py.optimizers.adagrad:Adagrad",
        "adam": "nntrainer_py.optimizers.adam:Adam",
        "adamw": "nntrainer_py.optimizers.adamw:AdamW",
        "lamb": "nntrainer_py.optimizers.lamb:Lamb",
        "lion": "nntrainer_py.optimizers.lion:Lion",
        "rmsprop": "nntrainer_py.optimizers.rmsprop:RmsProp",
        "sgd": "nntrainer_py.optimizers.sgd:Sgd",
    },
    known=("adam", "adamw", "sgd"),
)

SCHEDULERS = Registry(
    "learning rate schedule",
    {
        "constant": "nntrainer_py.optimizers.constant:Constant",
        "cosine": "nntrainer_py.optimizers.cosine:Cosine",
        "exponential": "nntrainer_py.optimizers.exponential:Exponential",
        "linear": "nntrainer_py.optimizers.linear:Linear",
        "one_cycle": "nntrainer_py.optimizers.one_cycle:OneCycle",
        "polynomial": "nntrainer_py.optimizers.polynomial:Polynomial",
        "reduce_on_plateau": "nntrainer_py.optimizers.reduce_on_plateau:ReduceOnPlateau",
        "step": "nntrainer_py.optimizers.step:Step",
    },
    known=("constant", "cosine", "exponential", "linear", "step"),
)

DATASETS = Registry(
    "type of data",
    {
        "csv": "nntrainer_py.data.sections:CsvSection",
        "file": "nntrainer_py.data.sections:FileSection",
        "idx": "nntrainer_py.data.sections:IdxSection",
        "image_folder": "nntrainer_py.data.sections:ImageFolderSection",
        "npy": "nntrainer_py.data.sections:NpySection",
        "npz": "nntrainer_py.data.sections:NpzSection",
    },
)

#: sections of an INI file that belong to higher rooms: section name -> the class of its keys
SECTIONS = Registry("section", {})


def _registrar(registry: Registry) -> Callable[[str], Callable[[C], C]]:
    def register(word: str) -> Callable[[C], C]:
        def decorate(cls: C) -> C:
            registry.register(word, cls)
            return cls

        return decorate

    return register


register_layer = _registrar(LAYERS)
register_loss = _registrar(LOSSES)
register_optimizer = _registrar(OPTIMIZERS)
register_scheduler = _registrar(SCHEDULERS)
