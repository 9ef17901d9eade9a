"""A model and NNTrainer's weight file: which of its tensors stand in it, and what comes back out."""

from __future__ import annotations

from pathlib import Path

from nntrainer_py.formats import bin as bin_format
from nntrainer_py.formats.bin import BinFile
from nntrainer_py.memory.swap_file import clear
from nntrainer_py.tensor.operations.record import StepState
from nntrainer_py.training.trainee import Trainee


def save_bin(path: Path, model: Trainee, training_state: bool | None) -> None:
    """Write weights, and of a model in training the counters; see `Model.save` for ``training_state``."""
    lowered = model.lowered()
    weights = model.compiled.weights(lowered)
    adam = _has_adam(model) and lowered.training
    iteration = int(model.compiled.state.counters[StepState.ITERATION])
    moments = None
    if adam and (iteration > 0 if training_state is None else training_state):
        state = model.compiled.optimizer_state(lowered)
        moments = {key: (state[f"{key}:m"], state[f"{key}:v"]) for key in lowered.gradients}
    counted = lowered.training
    bin_format.save(
        path,
        weights,
        adam=adam,
        moments=moments,
        epoch=model.epoch if counted else None,
        iteration=iteration if counted else None,
    )


def load_bin(path: Path, model: Trainee) -> None:
    """Read weights, and Adam's moments and the counters where the file has them and the model uses them."""
    lowered = model.lowered()
    weights = model.compiled.weights(lowered)
    trainable = [weight.key for weight in lowered.weights if weight.trainable]
    trained = list(lowered.gradients) if lowered.training else trainable
    with BinFile(path, weights, trained, trainable) as file:
        file.read_weights_into(weights)
        if lowered.training and _has_adam(model) and (file.has_moments or file.epoch is not None):
            state = model.compiled.optimizer_state(lowered)
            clear(state.values())  # what an earlier training of this model left has nothing to do with the file
            if file.has_moments:
                file.read_moments_into({key: (state[f"{key}:m"], state[f"{key}:v"]) for key in trained})
        if file.epoch is not None and lowered.training:
            model.epoch = file.epoch
            model.compiled.state.counters[StepState.ITERATION] = file.iteration or 0


def _has_adam(model: Trainee) -> bool:
    return model.spec.optimizer is not None and model.spec.optimizer.keyword == "adam"
