"""From the words of a command line to a model and its data; everything that is wrong is found and told together."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nntrainer_py.cli.command import SeveralErrors, load_plugins, notify, overrides_of
from nntrainer_py.errors import DescriptionError, Fault, NNTrainerError, Origin, UsageError
from nntrainer_py.plugins import registers_nothing

if TYPE_CHECKING:
    from nntrainer_py.data.dataset import Dataset
    from nntrainer_py.graph.spec import ModelSpec, SectionSpec
    from nntrainer_py.model import Model

USES = ("train", "valid", "test")


def open_model(arguments: argparse.Namespace, *, uses: tuple[str, ...] = ()) -> Model:
    """The model of the command line, compiled for nothing yet; its notices are shown.

    Plugins that fail, faults of the description and, with these, data files of ``uses`` that are missing are told
    together.
    """
    errors: list[NNTrainerError] = []
    try:
        load_plugins(arguments.plugins)
    except NNTrainerError as error:
        errors.append(error)
    from nntrainer_py.model import Model

    try:
        model = Model.from_ini(arguments.model, overrides_of(arguments))
    except DescriptionError as error:
        errors.append(_with_data_faults(_with_hint(error, arguments), arguments, uses))
    except NNTrainerError as error:
        errors.append(error)
    SeveralErrors.raise_if_any(errors)
    if not getattr(arguments, "quiet", False):
        notify(model.spec.notices)
    return model


def open_data(spec: ModelSpec, given: dict[str, str | None], errors: list[NNTrainerError]) -> dict[str, Dataset]:
    """The data by use: files of the command line take the place of sections. What is wrong is added to ``errors``."""
    found: dict[str, Dataset] = {}
    for use in USES:
        path, section = given.get(use), spec.datasets.get(use)
        try:
            if path is not None:
                found[use] = open_given(path, section, use)
            elif section is not None:
                found[use] = open_section(section, use)
        except NNTrainerError as error:
            errors.append(error)
    return found


def require_trainable(model: Model, errors: list[NNTrainerError]) -> None:
    """What training needs beside data."""
    where = Origin(model.spec.path)
    if not model.spec.has_loss:
        errors.append(UsageError("training needs a loss: add loss to [Model], or a loss layer", origin=where))
    if model.spec.optimizer is None and (model.spec.needs_optimizer or not model.spec.has_loss):
        errors.append(UsageError("training needs an optimizer: add an [Optimizer] section", origin=where))


def require_training_data(model: Model, given: dict[str, str | None], errors: list[NNTrainerError]) -> None:
    """A section or a file of the command line."""
    if given.get("train") is None and "train" not in model.spec.datasets:
        message = "there is no training data: add a [train_set] section, or give --train FILE"
        errors.append(UsageError(message, origin=Origin(model.spec.path)))


def open_section(section: SectionSpec, use: str) -> Dataset:
    """The data of a section; DataError at the place of its path."""
    from nntrainer_py.training import feeding

    return feeding.open_section(section, use)


def is_there(section: SectionSpec) -> bool:
    """Whether everything that a section names exists, be it of use or not."""
    return all(os.path.lexists(path) for path in section.paths.values())


def open_given(path: str, section: SectionSpec | None, use: str) -> Dataset:
    """A file of the command line; where the section is of the same kind its settings hold (header, labels ...)."""
    from nntrainer_py.data.sources import kind_of_path, open_dataset

    origin = Origin(f"--{use}")
    if section is not None and section.settings.keyword == kind_of_path(path):
        opened: Dataset = section.settings.open({"path": path}, role=use, origin=origin)
        opened.key = ""
        return opened
    return open_dataset(path, role=use, origin=origin)


#: what a plugin can register, as messages call it, and by which decorator
_REGISTERED = {
    "layer or loss": "register_layer",
    "loss": "register_loss",
    "optimizer": "register_optimizer",
    "learning rate schedule": "register_scheduler",
}
_UNKNOWN = re.compile(rf"unknown ({'|'.join(_REGISTERED)}) '([^']*)'")


def _with_hint(error: DescriptionError, arguments: argparse.Namespace) -> DescriptionError:
    """The error; where a keyword is unknown that a plugin could define, with the way to give one.

    Of plugins that were given, those that define nothing are named.
    """
    unknown = [match for fault in error.faults if (match := _UNKNOWN.match(fault.message))]
    if not unknown:
        return error
    if not arguments.plugins:
        words = " or ".join(f"'{word}'" for word in dict.fromkeys(match[2] for match in unknown))
        hint = f"if {words} is a keyword of your own, give the file that defines it: --plugin FILE.py"
        return DescriptionError([*error.faults, Fault("", 0, None, "", hint)])
    what, word = unknown[0].groups()
    hint = f'registers nothing; write @{_REGISTERED[what]}("{word}") above the class'
    silent = [path for path in arguments.plugins if registers_nothing(path)]
    return DescriptionError([*error.faults, *(Fault(str(path), 0, None, "", hint) for path in silent)])


def _with_data_faults(error: DescriptionError, arguments: argparse.Namespace, uses: tuple[str, ...]) -> NNTrainerError:
    """The error, and what is wrong with the data that the faulty file names."""
    if not uses:
        return error
    errors: list[NNTrainerError] = [error]
    given = {use: getattr(arguments, use, None) for use in uses}
    sections: dict[str, SectionSpec] = {}
    with contextlib.suppress(NNTrainerError, OSError):
        sections = _sections_alone(Path(arguments.model))
    for use in uses:
        try:
            path, section = given[use], sections.get(f"{use}_set")
            if path is not None:
                open_given(path, None, use).close()
            elif section is not None:
                open_section(section, use).close()
        except NNTrainerError as fault:
            errors.append(fault)
    return error if len(errors) == 1 else SeveralErrors(errors)


def _sections_alone(path: Path) -> dict[str, Any]:
    from nntrainer_py.errors import Faults
    from nntrainer_py.graph.ini import read
    from nntrainer_py.graph.paths import folder_of
    from nntrainer_py.graph.sections import Specials

    silent = Faults()
    specials = Specials(read(path, silent), folder_of(path), silent)
    specials.read()
    return specials.sections
