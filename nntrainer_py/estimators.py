"""Estimators for scikit-learn's pipelines and searches: `NNClassifier` and `NNRegressor` (extra ``sklearn``)::

from sklearn.model_selection import GridSearchCV
from nntrainer_py import NNClassifier

search = GridSearchCV(NNClassifier(epochs=30), {"hidden_units": [(16,), (32, 16)]}).fit(x, y)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.errors import MissingExtraError, counted
from nntrainer_py.layers.activation import Activation
from nntrainer_py.layers.base import Layer
from nntrainer_py.layers.dropout import Dropout
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.input import Input
from nntrainer_py.model import Model
from nntrainer_py.optimizers.base import Optimizer
from nntrainer_py.registry import OPTIMIZERS

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.model_selection import train_test_split
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise MissingExtraError("sklearn", "an estimator for scikit-learn") from error

_TYPES = [np.float64, np.float32]  # taken as they are
_PIECE = 1 << 15  # values brought to float64 together

#: inputs and outputs to a model
Build = Callable[[int, int], Model]


class _Network:
    """A trained model that can be copied and stored: how it is built, and its weights."""

    def __init__(self, build: Callable[[], Model]) -> None:
        self._build = build
        self._model: Model | None = None
        self._weights: dict[str, NDArray[Any]] | None = None

    @property
    def model(self) -> Model:
        if self._model is None:
            self._model = self._build()
            if self._weights is not None:
                for name, array in self._model.weights().items():
                    np.copyto(array, self._weights[name])
        return self._model

    def __getstate__(self) -> dict[str, Any]:
        weights = {name: np.array(array) for name, array in self.model.weights().items()}
        return {"_build": self._build, "_weights": weights, "_model": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


class _Recipe:
    """How to build the model of an estimator again; a class and no closure, so that it can be stored."""

    def __init__(self, estimator: NetworkEstimator, inputs: int, outputs: int, seed: int, loss: str, last: str) -> None:
        self._parameters = estimator.get_params(deep=False)
        self._inputs, self._outputs, self._seed = inputs, outputs, seed
        self._loss, self._last = loss, last

    def __call__(self) -> Model:
        given = self._parameters
        built = given["model"]
        if isinstance(built, (str, os.PathLike)):
            model = Model.from_ini(Path(built))
        elif built is not None:
            model = built(self._inputs, self._outputs)
        else:
            model = self._network()
        model.compile(batch_size=given["batch_size"], threads=given["threads"], seed=self._seed)
        made = model.lowered("predict").outputs
        features = made[0].dim.features
        if len(made) != 1 or features != self._outputs:
            raise ValueError(
                f"the model has {counted(len(made), 'output')} of {counted(features, 'value')}, "
                f"the targets need {self._outputs}"
            )
        return model

    def _network(self) -> Model:
        given = self._parameters
        layers: list[Layer] = [Input(input_shape=f"1:1:{self._inputs}")]
        for units in given["hidden_units"]:
            layers += [FullyConnected(unit=int(units)), Activation(activation=given["activation"])]
            if given["dropout"]:
                layers.append(Dropout(dropout_rate=given["dropout"]))
        layers.append(FullyConnected(unit=self._outputs, activation=self._last))
        optimizer = given["optimizer"]
        if isinstance(optimizer, str):
            optimizer = OPTIMIZERS.load(optimizer)(learning_rate=given["learning_rate"])
        return Model.build(layers, model={"loss": self._loss}, optimizer=optimizer)


class NetworkEstimator(BaseEstimator):  # type: ignore[misc]
    """What both have in common.

    Args:
        hidden_units: widths of the hidden layers.
        activation: of the hidden layers.
        dropout: share of their values dropped in training.
        model: in place of such a network: path of an INI file, or a function of the numbers of inputs and outputs that
            gives a `Model` with a loss and an optimizer.
        optimizer: keyword, or an optimizer (which then has its own learning rate).
        learning_rate: step size of an optimizer given by keyword.
        epochs, batch_size: of training.
        shuffle: a new order of the samples each epoch.
        scale: bring every feature (and a regressor's targets) to mean 0 and deviation 1, as measured when fitting.
        validation_fraction: share of the samples kept apart for early stopping; 0 for none.
        patience: epochs without a better one after which training stops, when samples are kept apart.
        threads: to compute with; None for one a processor.
        random_state: seed of initial weights, dropout and order; see scikit-learn's glossary.
        verbose: show a progress bar.
    """

    def __init__(
        self,
        hidden_units: Sequence[int] = (32,),
        *,
        activation: str = "relu",
        dropout: float = 0.0,
        model: str | os.PathLike[str] | Build | None = None,
        optimizer: str | Optimizer = "adam",
        learning_rate: float = 0.01,
        epochs: int = 100,
        batch_size: int = 32,
        shuffle: bool = True,
        scale: bool = True,
        validation_fraction: float = 0.0,
        patience: int = 10,
        threads: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.hidden_units = hidden_units
        self.activation = activation
        self.dropout = dropout
        self.model = model
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.scale = scale
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.threads = threads
        self.random_state = random_state
        self.verbose = verbose

    def _train(self, x: NDArray[Any], y: NDArray[Any], outputs: int, loss: str, last: str, stratify: bool) -> None:
        """Fit the network to features and to class indices or targets (samples, outputs)."""
        random = check_random_state(self.random_state)
        seed = int(random.randint(np.iinfo(np.int32).max))
        self._shift, self._scale = _scaling(x, self.scale)
        x = self._scaled(x)
        valid = None
        if self.validation_fraction:
            kept = y if stratify else None
            x, x_valid, y, y_valid = train_test_split(
                x, y, test_size=self.validation_fraction, random_state=random, stratify=kept
            )
            valid = (x_valid, y_valid)
        network = _Network(_Recipe(self, x.shape[1], outputs, seed, loss, last))
        result = network.model.train(
            x,
            y,
            valid=valid,
            epochs=self.epochs,
            batch_size=self.batch_size,
            shuffle=self.shuffle,
            progress=bool(self.verbose),
            patience=self.patience if valid is not None else None,
        )
        self._network = network
        self.history_ = result.history
        self.n_epochs_ = result.epoch

    def _scaled(self, x: NDArray[Any]) -> NDArray[np.float32]:
        return _standardized(x, self._shift, self._scale)

    def _outputs(self, x: Any) -> NDArray[Any]:
        """What the network says, (samples, outputs)."""
        check_is_fitted(self)
        x = validate_data(self, x, reset=False, dtype=_TYPES)
        x = self._scaled(x)
        made = self._network.model.predict(x, batch_size=max(self.batch_size, 256))
        return np.asarray(made, np.float64).reshape(len(x), -1)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_network")


class NNClassifier(ClassifierMixin, NetworkEstimator):  # type: ignore[misc]
    """A network that chooses one of two or more classes; see `NetworkEstimator` for the arguments.

    Attributes:
        classes_: the labels seen when fitting, sorted.
        n_features_in_: number of features.
        history_: loss and accuracy of each epoch.
        n_epochs_: epochs trained.
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Train on features (samples, features) and labels (samples,)."""
        X, y = validate_data(self, X, y, dtype=_TYPES)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(f"{type(self).__name__} needs samples of at least 2 classes, got one class")
        indices = np.searchsorted(self.classes_, y).astype(np.int32)
        self._train(X, indices, len(self.classes_), "cross", "softmax", stratify=True)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities (samples, classes) in the order of ``classes_``; each row sums to 1."""
        scores = self._outputs(X)
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each sample."""
        made = self._outputs(X)
        return np.asarray(self.classes_[made.argmax(axis=1)])


class NNRegressor(RegressorMixin, NetworkEstimator):  # type: ignore[misc]
    """A network that predicts one or several numbers; see `NetworkEstimator` for the arguments.

    Attributes:
        n_features_in_: number of features.
        history_: loss, mean absolute error and R2 of each epoch (of scaled targets where ``scale`` is on).
        n_epochs_: epochs trained.
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Train on features (samples, features) and targets (samples,) or (samples, outputs)."""
        X, y = validate_data(self, X, y, dtype=_TYPES, multi_output=True, y_numeric=True)
        self._single = y.ndim == 1
        targets = y.reshape(len(y), -1)
        self._target_shift, self._target_scale = _scaling(targets, self.scale)
        scaled = _standardized(targets, self._target_shift, self._target_scale)
        self._train(X, scaled, targets.shape[1], "mse", "none", stratify=False)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predictions of the shape of the targets."""
        made = self._outputs(X) * self._target_scale + self._target_shift
        return made[:, 0] if self._single else made

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _scaling(values: NDArray[Any], wanted: bool) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and deviation of each column; 0 and 1 where they are not wanted or the column never changes."""
    columns = values.shape[1]
    if not wanted:
        return np.zeros(columns), np.ones(columns)
    mean = sum(piece.sum(axis=0) for piece in _pieces(values)) / len(values)
    deviation = np.sqrt(sum(((piece - mean) ** 2).sum(axis=0) for piece in _pieces(values)) / len(values))
    still = deviation <= 1e-12 * np.maximum(np.abs(mean), 1e-300)
    return mean, np.where(still, 1.0, deviation)


def _pieces(values: NDArray[Any]) -> Iterator[NDArray[np.float64]]:
    """Rows in float64, a few at a time: a copy of all would take more memory than the data."""
    step = max(1, _PIECE // values.shape[1])
    for start in range(0, len(values), step):
        yield values[start : start + step].astype(np.float64)


def _standardized(values: NDArray[Any], shift: NDArray[Any], scale: NDArray[Any]) -> NDArray[np.float32]:
    made = np.empty(values.shape, np.float32)
    first = 0
    for piece in _pieces(values):
        piece -= shift
        piece /= scale
        made[first : first + len(piece)] = piece
        first += len(piece)
    return made


__all__ = ["NNClassifier", "NNRegressor"]
