"""Model: the face of the package. It calls the rooms behind it and computes nothing itself."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nntrainer_py.data.arrays import ArrayDataset, by_name
from nntrainer_py.data.dataset import Dataset
from nntrainer_py.data.loader import Batch, BatchLoader
from nntrainer_py.data.normalization import Normalization
from nntrainer_py.data.raw_file import RawFileDataset
from nntrainer_py.data.sources import as_dataset
from nntrainer_py.errors import (
    NumericalError,
    UsageError,
    WeightFileError,
    counted,
    did_you_mean,
    printable,
)
from nntrainer_py.formats import names
from nntrainer_py.formats.safetensors import SafetensorsFile
from nntrainer_py.graph.description import load_ini, load_text
from nntrainer_py.graph.lower import Lowered
from nntrainer_py.graph.spec import LayerSpec, ModelSpec
from nntrainer_py.layers.base import Layer
from nntrainer_py.memory.outcome import DataMemory
from nntrainer_py.memory.swap_file import clear
from nntrainer_py.optimizers.base import Optimizer
from nntrainer_py.training import checkpoint, weight_files
from nntrainer_py.training.callbacks import Callback, TrainingResult
from nntrainer_py.training.compilation import Compilation
from nntrainer_py.training.compiled import Compiled
from nntrainer_py.training.feeding import data_memory
from nntrainer_py.training.frozen import nothing_trained
from nntrainer_py.training.input_order import order_doubts
from nntrainer_py.training.lowerings import Mode
from nntrainer_py.training.options import Options
from nntrainer_py.training.progress import progress_callbacks
from nntrainer_py.training.settings import TrainSettings, whole
from nntrainer_py.training.stepper import Stepper
from nntrainer_py.training.summary import layer_table
from nntrainer_py.training.warn import warn

if TYPE_CHECKING:
    from nntrainer_py.graph.model_section import ModelSection
    from nntrainer_py.properties import Configurable

Arrays = ArrayLike | Sequence[ArrayLike] | Mapping[str, ArrayLike]


class Model:
    """A described model, compiled on demand.

    Build one from an INI (`from_ini`) or from layer objects (`build`), then ``compile``, ``train`` or
    ``train_on_batch``, ``evaluate``, ``predict``, ``save`` and ``load``. Arrays are batch first; a sample may have any
    shape with the right number of elements.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self._compilation = Compilation(spec)
        self._stepper: Stepper | None = None  # of train_on_batch
        #: epochs of training behind the weights
        self.epoch = 0
        #: scaling of the inputs that the training data asked for, and the names of its classes
        self.normalization: Normalization | None = None
        self.class_names: tuple[str, ...] | None = None
        #: names of the input columns of the training data, where it had a header; later data is taken by them
        self.feature_names: tuple[str, ...] | None = None
        self._told: set[str] = set()  # warnings about data
        self._loaded: Path | None = None  # the file of the last `load`

    @classmethod
    def from_ini(cls, path: str | os.PathLike[str], overrides: Iterable[str] | str = ()) -> Self:
        """The model of an INI file; ``overrides`` are texts ``section.key=value``. DescriptionError with all faults."""
        return cls(load_ini(path, overrides=overrides))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """The model that a ``.safetensors`` file of `save`, or a checkpoint, describes, with its weights.

        Of the description only the network is taken: no data section and no path to write to.
        WeightFileError for a file without a description.
        """
        if Path(path).suffix == ".bin":
            raise WeightFileError(
                f"{printable(os.fspath(path))}: a .bin file holds weights without a description of their model; "
                "make the model with Model.from_ini or Model.build, and read them with its load"
            )
        with SafetensorsFile(path) as file:
            text = file.metadata.get("ini")
            if text is None:
                raise file.error("there is no description of the model in it; build the model and load the weights")
        spec = load_text(text, folder=Path(path).resolve().parent, name=str(path))
        settings = copy(spec.model)
        settings.save_path = settings.save_best_path = None
        model = cls(replace(spec, model=settings, sections={}))
        model.load(path)
        return model

    @classmethod
    def build(
        cls,
        layers: Iterable[Layer | LayerSpec | tuple[str, Layer]],
        *,
        model: ModelSection | Mapping[str, object] | None = None,
        optimizer: Optimizer | str | None = None,
        scheduler: Configurable | str | None = None,
    ) -> Self:
        """The model of Python objects; ``model`` are the keys of the [Model] section."""
        return cls(ModelSpec.build(layers=layers, model=model, optimizer=optimizer, scheduler=scheduler))

    def compile(
        self,
        batch_size: int | None = None,
        *,
        threads: int | None = None,
        seed: int | None = None,
        convolution: str | None = None,
        data: DataMemory | None = None,
        **memory: Any,
    ) -> Self:
        """Fix batch size, threads, seed and algorithms. What is not given comes from [Model].

        Weights start anew: as the file has them that was loaded last, else with initial values.
        Threads are at most those that there are processors for: their number changes no result.
        ``data`` is what reading the data will take, where that is known already (see `hold_data`).
        PlanError when a memory budget does not do for everything that the model can do with such batches,
        UsageError when the plans need a swap file that cannot be made.
        """
        self._compilation.on_begin = None if self._loaded is None else partial(_load, weakref.ref(self), self._loaded)
        self._compilation.configure(batch_size, threads, seed, convolution, memory)
        self.epoch = 0 if self._loaded is None else self.epoch
        if data is not None:
            self.hold_data(data)
        if self.compile_options.memory_budget is not None:
            self.compiled.plans.promise()
        self.require_swap_file()
        return self

    @property
    def compile_options(self) -> Options:
        """What was asked for; compiles with the settings of [Model] when nobody did."""
        return self._compilation.options

    @property
    def compiled(self) -> Compiled:
        """The programs; compiles with the settings of [Model] when nobody did."""
        return self._compilation.compiled

    def hold_data(self, data: DataMemory | None, uses: Sequence[tuple[Mode, int]] = ()) -> None:
        """Count what reading takes against a memory budget, see `Compilation.hold_data`."""
        self._compilation.hold_data(data, uses)

    def require_swap_file(self, mode: Mode | None = None, copies: int = 0) -> None:
        """See that the swap file can be made, where one is needed, see `Compilation.require_swap_file`."""
        self._compilation.require_swap_file(mode, copies)

    @property
    def batch_size(self) -> int:
        return self._compilation.batch

    def limit_batch(self, samples: int) -> str:
        """No batch will have more samples, see `Compilation.limit_batch`."""
        return self._compilation.limit_batch(samples)

    @property
    def trainable(self) -> bool:
        """Has a loss and an optimizer, or layers that learn from labels alone."""
        return self._compilation.trainable

    def lowered(self, mode: Mode | None = None, batch: int | None = None) -> Lowered:
        """The operation list of a mode (default: training where possible); takes no memory."""
        return self._compilation.lowered(mode, batch)

    def weights(self) -> dict[str, NDArray[Any]]:
        """Name to array, in .bin order. The arrays are the model's own: writing to them sets the weights."""
        return self.compiled.weights(self.lowered())

    def learning_rate(self, iteration: int) -> float:
        """The rate of the schedule, or the optimizer's own; 0 where nothing descends."""
        scheduler = self.spec.scheduler
        if scheduler is not None:
            return float(scheduler.rate(iteration))  # type: ignore[attr-defined]
        optimizer = self.spec.optimizer
        return 0.0 if optimizer is None else float(optimizer.learning_rate)

    def set_trainable(self, trainable: bool, *names: str) -> Self:
        """Freeze or free layers (all of them without names), also between steps of training.

        Weights, running statistics, counters and the optimizer's state stay; that of a layer that was never trained
        starts at zero. UsageError for an unknown name, and where weights live in a swap file.
        """
        layers = {spec.name: spec.layer for spec in self.spec.layers}
        for name in names:
            if name not in layers:
                raise UsageError(f"there is no layer '{name}'{did_you_mean(name, layers)}")
        self._compilation.require_no_file()
        for name in names or layers:
            layers[name].trainable = trainable
        self._compilation.refresh()
        return self

    def reset_training(self) -> None:
        """Epoch, iteration, optimizer state and schedule back to their beginning; the weights stay."""
        self.epoch = 0
        self.compiled.state.counters[:] = 0
        if self.trainable:
            clear(self.compiled.optimizer_state(self.lowered("train")).values())
        if self.spec.scheduler is not None:
            self.spec.scheduler.load_state({})  # type: ignore[attr-defined]

    def train(
        self,
        x: Any = None,
        y: Any = None,
        *,
        valid: Any = None,
        test: Any = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        shuffle: bool | None = None,
        callbacks: Iterable[Callback] = (),
        progress: bool | None = None,
        **settings: Any,
    ) -> TrainingResult:
        """Train, by default on the data and for the epochs of the description.

        Args:
            x, y: arrays, or ``x`` alone: a data set, a path, a generator (see `data.sources.as_dataset`). Several
                inputs or labels are a list in the order of the model, or a dictionary from the names of the layers.
            valid, test: the same, two arrays as a pair.
            epochs: the total; a resumed run counts those done before.
            batch_size: default: that of `compile`.
            shuffle: a new order of the samples each epoch; default: as the description says, else yes.
            callbacks: see `training.callbacks`.
            progress: show a bar; None: in notebooks.
            settings: further fields of `training.settings.TrainSettings`, such as ``patience`` or ``checkpoint``.

        What looks wrong with the data, such as pixels of 0 to 255 that nothing scales, is given as a `DataWarning`,
        once a model; so is that nothing is trained, every layer being frozen or the learning rate 0.
        """
        from nntrainer_py.training.feeding import open_loaders
        from nntrainer_py.training.loop import train

        x, y = self._in_order(x, y)
        batch_size = None if batch_size is None else whole("batch_size", batch_size, 1)
        data = x if y is None or x is None else as_dataset(x, y)
        valid, test = (self._in_order(*given) if _is_named(given) else given for given in (valid, test))
        loaders = open_loaders(self, data, valid, test, batch_size=batch_size, shuffle=shuffle)
        followers = [*callbacks, *progress_callbacks(progress)]
        try:
            still = nothing_trained(self, self._piece(batch_size))
            warn(filter(None, [*loaders.doubts, still]), self._told)
            return train(
                self,
                loaders.train,
                loaders.valid,
                loaders.test,
                settings=self.settings(epochs, settings),
                callbacks=followers,
            )
        finally:
            loaders.close()

    fit = train

    def _piece(self, batch_size: int | None) -> int:
        """The samples that a step computes at once."""
        batch = batch_size or self.batch_size
        return min(batch, self.compiled.options.micro_batch or batch)

    def settings(self, epochs: int | None = None, changes: Mapping[str, Any] | None = None) -> TrainSettings:
        """The settings of a run as the description has them, with changes."""
        described = self.spec.model
        values: dict[str, Any] = {
            "epochs": described.epochs if epochs is None else epochs,
            "save_path": self._described_path("save_path"),
            "save_best_path": self._described_path("save_best_path"),
            "continue_train": described.continue_train,
        }
        known = {field.name: field for field in fields(TrainSettings)}
        for name, value in (changes or {}).items():
            if name not in known:
                raise UsageError(f"train: unknown argument '{name}'{did_you_mean(name, known)}")
            values[name] = value
        return TrainSettings(**values)

    def _described_path(self, key: str) -> Path | None:
        text = getattr(self.spec.model, key)
        return None if text is None else self.spec.folder / text

    def train_on_batch(self, x: Arrays, y: Arrays) -> float:
        """One step on one batch of any size; returns the loss before the update.

        Raises NumericalError when that is not finite; the model is then as it was.
        """
        if not self.trainable:
            raise UsageError("training needs a loss and an optimizer")
        if self._fits("train", x, y):
            inputs, labels, count = [np.asarray(x)], [np.asarray(y)], len(np.asarray(x))
        else:
            inputs, labels, count = self._batch_arrays(*self._in_order(x, y))
        if self._stepper is None or self._stepper.compiled is not self.compiled:
            self._stepper = Stepper(self.compiled, self.learning_rate, count)
        return self._stepper.step(Batch(inputs, labels, count, np.arange(count)))

    def _fits(self, mode: Mode, x: Any, y: Any = None) -> bool:
        """One input (and label) in the very type and shape that the model computes with: nothing to convert.

        Only labels that the loss itself checks; all others are looked at first.
        """
        if self.normalization is not None or type(x) is not np.ndarray or x.dtype != np.float32 or not len(x):
            return False
        lowered = self.lowered(mode, len(x))
        if len(lowered.inputs) != 1 or x.shape != lowered.inputs[0].shape:
            return False
        if mode == "predict":
            return True
        if type(y) is not np.ndarray or y.dtype != np.float32 or len(lowered.labels) != 1:
            return False
        losses = [node.layer.keyword for node in self.compiled.graph(mode).nodes if node.layer.is_loss]
        return y.shape == lowered.labels[0].shape and losses in (["cross_softmax"], ["focal"])

    def predict(self, x: Any, batch_size: int | None = None, *, labelled: bool | None = None) -> Any:
        """Outputs for ``x``: an array, or a tuple of arrays where the model has several outputs.

        ``x`` is an array, a list of arrays or a dictionary from names for several inputs, or anything
        `data.sources.as_dataset` takes; it is scaled as the training data was. ``labelled=True`` reads data that also
        has labels and leaves these out; ``labelled=False`` says that there are none. Only of a raw file, which does
        not tell, must this be said: where the file could be read with labels as well, DataError asks for it.
        """
        size = whole("batch_size", batch_size, self.batch_size)
        size = min(size, self.compiled.options.micro_batch or size)
        if type(x) is np.ndarray and len(x) <= size and self._fits("predict", x):
            made_at_once = self._forward([x], len(x))
            return made_at_once[0] if len(made_at_once) == 1 else made_at_once
        x, _ = self._in_order(x, None)
        dataset = x if isinstance(x, Dataset) else self._unlabelled(x)
        dataset.normalization = dataset.normalization or self.normalization
        if labelled and not self.spec.has_loss:
            raise UsageError("labelled: this model has no loss, so that it does not know how long a label is")
        if labelled is None and isinstance(dataset, RawFileDataset):
            self._require_unlabelled(dataset)
        self.bind(dataset, labels=bool(labelled), class_names=self.class_names if labelled else None)
        size = min(size, dataset.sample_count or size)
        loader = BatchLoader(dataset, size, buffer_size=0)
        with self._reading(loader, "predict"):
            made = (self._forward(batch.inputs, batch.count) for batch in loader)
            joined = _joined(made, dataset.sample_count)
        return joined[0] if len(joined) == 1 else joined

    def _forward(self, inputs: Sequence[NDArray[Any]], count: int) -> tuple[NDArray[Any], ...]:
        """The outputs of one batch."""
        compiled = self.compiled
        with compiled.lock:
            program = compiled.program("predict", count)
            compiled.feed("predict", program, [array[:count] for array in inputs])
            compiled.engine.forward(program)
            return tuple(array.copy() for array in program.outputs)

    def _require_unlabelled(self, dataset: RawFileDataset) -> None:
        """DataError where a raw file has labels, or may have: nothing in it says so."""
        if not self.spec.has_loss:
            return
        mode: Mode = "train" if self.trainable else "evaluate"
        lowered, graph = self.lowered(mode), self.compiled.graph(mode)
        labels = [lowered.labels[place].shape[1:] for place in graph.label_order]
        inputs = [lowered.inputs[place].shape[1:] for place in graph.input_order]
        samples = dataset.labelled_samples(inputs, labels, graph.label_kinds)
        if samples:
            raise dataset.error(
                f"this looks like {counted(samples, 'sample')} with labels, which a raw file does not tell; "
                "say labelled=True to leave the labels out, or labelled=False when these are inputs alone"
            )

    def _unlabelled(self, x: Any) -> Dataset:
        several = isinstance(x, (list, tuple)) and all(hasattr(part, "__array__") for part in x)
        return ArrayDataset(x) if several else as_dataset(x)

    def summary(self) -> str:
        """Name, type, output shape and parameters of each layer, as text."""
        return layer_table(self.lowered())

    def evaluate(self, x: Any, y: Any = None, batch_size: int | None = None) -> dict[str, float]:
        """Mean loss and metrics over the samples, with inference behaviour: arrays, or ``x`` as `train` takes it."""
        from nntrainer_py.training.evaluation import evaluate_batches

        dataset = as_dataset(*self._in_order(x, y))
        dataset.normalization = dataset.normalization or self.normalization
        self.bind(dataset, class_names=self.class_names or ())
        size = whole("batch_size", batch_size, self.batch_size)
        loader = BatchLoader(dataset, min(size, dataset.sample_count or size), buffer_size=0)
        with self._reading(loader, "evaluate"):
            return evaluate_batches(self.compiled, loader)

    @contextmanager
    def _reading(self, loader: BatchLoader, mode: Mode) -> Iterator[None]:
        """Count what a loader takes beside what is counted already."""
        before, taken = self._compilation.data, data_memory([loader])
        self.hold_data(taken if before is None else before.plus(taken), [(mode, loader.batch_size)])
        try:
            yield
        finally:
            self.hold_data(before)

    def save(self, path: str | os.PathLike[str], *, training_state: bool | None = None) -> None:
        """Write the weights: NNTrainer's ``.bin``, or for a name in ``.safetensors`` that layout.

        A ``.bin`` of a model in training ends with the counters, and with adam before these its moments: always with
        ``training_state``, never without, by default once there was an update (to resume with any
        optimizer, train with a ``checkpoint``). A ``.safetensors`` file also carries the description of the model, the
        names of the classes and the normalization, see `from_file`. A name without an ending is written as ``.bin``.
        UsageError for any other ending, WeightFileError when the file cannot be written.
        """
        fault = names.save_fault(path)
        if fault:
            raise UsageError(f"{printable(os.fspath(path))}: {fault}")
        if Path(path).suffix == ".safetensors":
            checkpoint.save_model(Path(path), self)
        else:
            weight_files.save_bin(Path(path), self, training_state)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Read weights (of a ``.bin`` also Adam's moments and counters, where it has them and the model uses them).

        A ``.safetensors`` file may also be a checkpoint. WeightFileError when the file is not of this model.
        """
        fault = names.load_fault(path)
        if fault:
            raise WeightFileError(f"{printable(os.fspath(path))}: {fault}")
        if Path(path).suffix == ".safetensors":
            checkpoint.load_weights(Path(path), self)
        else:
            weight_files.load_bin(Path(path), self)
        self._loaded = Path(path).absolute()

    def _batch_arrays(self, x: Arrays, y: Arrays) -> tuple[list[NDArray[Any]], list[NDArray[Any]], int]:
        """Float32 arrays of one batch, class indices expanded, labels checked."""
        dataset = ArrayDataset(_as_list(x), _as_list(y))
        self.bind(dataset)
        count = len(dataset)
        lowered = self.lowered("train", count)
        graph = self.compiled.graph("train")
        inputs = [np.empty(lowered.inputs[place].shape, np.float32) for place in graph.input_order]
        labels = [np.empty(lowered.labels[place].shape, np.float32) for place in graph.label_order]
        dataset.read(np.arange(count), inputs, labels)
        return inputs, labels, count

    def _in_order(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Inputs and labels that are given by name as lists in the order of the data."""
        doubts: list[str] = []
        if isinstance(x, Mapping):
            x = by_name(x, [(name,) for name in self._compilation.unplanned().graph("predict").inputs], "input")
        elif isinstance(x, (list, tuple)) and len(x) == len(inputs := self.lowered("predict").inputs) > 1:
            graph = self._compilation.unplanned().graph("predict")
            doubts = order_doubts(self.spec, graph.inputs, [inputs[place].dim.features for place in graph.input_order])
        if isinstance(y, Mapping):
            names = self._compilation.unplanned().graph("train" if self.trainable else "evaluate").labels
            y = by_name(y, [(name, name.removesuffix("/loss")) for name in names], "label")
        warn(doubts, self._told)
        return x, y

    def bind(self, dataset: Any, *, labels: bool = True, class_names: Sequence[str] | None = None) -> None:
        """Tell a data set what the model expects. DataError when it does not fit."""
        mode: Mode = ("train" if self.trainable else "evaluate") if labels else "predict"
        lowered, graph = self.lowered(mode), self._compilation.unplanned().graph(mode)
        dataset.expected_features = self.feature_names
        dataset.input_names, dataset.label_names = graph.inputs, graph.labels
        dataset.bind(
            [lowered.inputs[place].shape[1:] for place in graph.input_order],
            [lowered.labels[place].shape[1:] for place in graph.label_order] if labels else [],
            class_names=class_names,
            label_kinds=graph.label_kinds if labels else None,
        )


def _joined(batches: Iterator[tuple[NDArray[Any], ...]], samples: int | None) -> tuple[NDArray[Any], ...]:
    """The outputs of all batches. Where it is known how many samples there are, nothing else of that size is held."""
    if samples is None:
        return tuple(np.concatenate(parts) for parts in zip(*batches, strict=True))
    whole: tuple[NDArray[Any], ...] = ()
    done = 0
    for batch in batches:
        whole = whole or tuple(np.empty((samples, *part.shape[1:]), part.dtype) for part in batch)
        for array, part in zip(whole, batch, strict=True):
            array[done : done + len(part)] = part
        done += len(batch[0])
    return whole


def _load(model: weakref.ref[Model], path: Path) -> None:
    """Load a file into a model that is still there."""
    there = model()
    if there is not None:
        there.load(path)


def _is_named(pair: Any) -> bool:
    """A pair of inputs and labels of which one or both are given by name."""
    return isinstance(pair, tuple) and len(pair) == 2 and any(isinstance(part, Mapping) for part in pair)


def _as_list(arrays: Arrays) -> list[ArrayLike]:
    """One array or a list or tuple of arrays, as a list. A list of plain numbers is one array."""
    if isinstance(arrays, (list, tuple)) and arrays and all(hasattr(array, "__array__") for array in arrays):
        return list(arrays)
    return [arrays]  # type: ignore[list-item]


__all__ = ["Model", "NumericalError"]
