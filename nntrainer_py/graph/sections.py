"""The sections that are no layers: the model, optimizer and schedule in both their forms, data in both, foreign."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nntrainer_py.errors import Faults, Origin, UsageError, did_you_mean
from nntrainer_py.graph.ini import IniFile, Section
from nntrainer_py.graph.model_section import MODEL_TYPES, ModelSection
from nntrainer_py.graph.obsolete import MODEL_KEYS, obsolete
from nntrainer_py.graph.paths import find
from nntrainer_py.graph.spec import DATASET_USES, SectionSpec
from nntrainer_py.optimizers.base import Optimizer
from nntrainer_py.properties import Configurable
from nntrainer_py.properties.kinds import PathKind
from nntrainer_py.registry import DATASETS, OPTIMIZERS, SCHEDULERS, SECTIONS, Registry

Text = tuple[str, str, Origin]

MODEL, OPTIMIZER, SCHEDULER, OLD_DATA = "model", "optimizer", "learningratescheduler", "dataset"
_OWN = (MODEL, OPTIMIZER, SCHEDULER, OLD_DATA, *DATASET_USES)
_SPELLED = {"model": "Model", "optimizer": "Optimizer", SCHEDULER: "LearningRateScheduler", OLD_DATA: "DataSet"}

#: keys of ``[Model]`` that NNTrainer reads and ignores, and why
_WITHOUT_EFFECT = {
    "tensor_type": "model_tensor_type = FP32-FP32 is in force",
    "tensor_format": "NCHW is in force",
}
#: keys of an optimizer that ``[Model]`` may hold: used with ``optimizer`` beside them, else ignored
_OPTIMIZER_IN_MODEL = ("learning_rate", "decay_rate", "decay_steps", "beta1", "beta2", "epsilon")
_DECAY = ("decay_rate", "decay_steps")
#: keys of ``[DataSet]`` and the section of today that each one makes
OLD_DATA_KEYS = {"traindata": "train_set", "validdata": "valid_set", "testdata": "test_set"}
_BUFFER = ("buffersize", "buffer_size")


def section_names() -> list[str]:
    """The names of all sections that are no layers, as they are usually written."""
    return [_SPELLED.get(name, name) for name in (*_OWN, *SECTIONS.words())]


def is_special(name: str) -> bool:
    """Whether a section of this name, in lower case, is no layer."""
    return name in _OWN or name in SECTIONS


class Specials:
    """Reads the sections of one file that are no layers; faults and notices go to ``faults``."""

    def __init__(self, ini: IniFile, folder: Path, faults: Faults) -> None:
        self.ini = ini
        self.folder = folder
        self.faults = faults
        self.model: ModelSection | None = None
        self.optimizer: Optimizer | None = None
        self.scheduler: Configurable | None = None
        self.sections: dict[str, SectionSpec] = {}

    def read(self) -> None:
        """Fill the attributes. A thing that is faulty or absent stays None."""
        in_model = self._read_model()
        self._read_optimizer(in_model)
        self._read_old_data()
        for section in self.ini.sections:
            if section.name in DATASET_USES:
                self._keep(self._data(section.name, list(self.ini.items(section)), self.ini.origin(section)))
            elif section.name in SECTIONS and section.name not in _OWN:
                cls = SECTIONS.load(section.name)
                self._keep(self._section(section.name, cls, list(self.ini.items(section)), self.ini.origin(section)))

    def _read_model(self) -> list[Text]:
        """Build the model; returns the entries that belong to an optimizer."""
        section = self.ini.get(MODEL)
        if section is None:
            self.faults.add("a [Model] section is required", Origin(self.ini.path))
            return []
        mine: list[Text] = []
        optimizer: list[Text] = []
        for entry in self.ini.items(section):
            key, _, where = entry
            if key in _WITHOUT_EFFECT:
                self.faults.warn(f"has no effect; {_WITHOUT_EFFECT[key]}", where, key)
            elif key == "optimizer" or key in _OPTIMIZER_IN_MODEL:
                optimizer.append(entry)
            elif key in MODEL_KEYS and ModelSection.find_property(key) is None:
                self.faults.add(obsolete(MODEL_KEYS[key]), where, key)
            else:
                mine.append(entry)
        self.model = ModelSection.from_texts(mine, self.faults, self.ini.origin(section))
        if self.model is not None and self.model.type not in (None, *MODEL_TYPES):
            word, where = next((text, at) for key, text, at in mine if key == "type")
            known = f"one of {', '.join(MODEL_TYPES)} has{did_you_mean(self.model.type or '', MODEL_TYPES)}"
            self.faults.warn(f"'{word[:60]}' has no effect; {known}", where, "type")
        if self.model is not None and self.model.model_tensor_type != "FP32-FP32":
            where = next(at for key, _, at in mine if key == "model_tensor_type")
            self.faults.warn("has no effect; FP32-FP32 is in force", where, "model_tensor_type")
        return optimizer

    def _read_optimizer(self, in_model: list[Text]) -> None:
        section, schedule = self.ini.get(OPTIMIZER), self.ini.get(SCHEDULER)
        word = next((entry for entry in in_model if entry[0] == "optimizer"), None)
        if word is not None and section is not None:
            line = self.ini.origin(section).line
            self.faults.add(f"the optimizer stands in [Optimizer] on line {line} already", word[2], "optimizer")
            return
        if word is not None:
            self._build_optimizer([*in_model], word[2], schedule, "optimizer")
        elif section is not None:
            self._build_optimizer(list(self.ini.items(section)), self.ini.origin(section), schedule)
        elif schedule is not None:
            message = "a schedule needs an optimizer: add [Optimizer]"
            self.faults.add(message, self.ini.origin(schedule))
            self._configured(SCHEDULERS, list(self.ini.items(schedule)), self.ini.origin(schedule), None)
        if word is None:
            for key, _, where in in_model:
                self.faults.warn(f"has no effect in [Model]; {self._in_force(key)}", where, key)

    def _build_optimizer(
        self, entries: list[Text], origin: Origin, schedule: Section | None, type_key: str = "type"
    ) -> None:
        decay = [entry for entry in entries if entry[0] in _DECAY]
        rest = [entry for entry in entries if entry[0] not in _DECAY]
        rate = [entry for entry in rest if entry[0] == "learning_rate"]
        if schedule is not None:
            for key, _, where in decay:
                line = self.ini.origin(schedule).line
                self.faults.add(f"not together with [LearningRateScheduler] on line {line}", where, key)
            self.scheduler = self._configured(
                SCHEDULERS, list(self.ini.items(schedule)), self.ini.origin(schedule), None
            )
        if decay and schedule is None:
            # the older form of an exponential schedule, which takes the learning rate with it
            rest = [entry for entry in rest if entry[0] != "learning_rate"]
        self.optimizer = self._configured(OPTIMIZERS, rest, origin, "adam", type_key)
        if decay and schedule is None:
            self._build_decay(decay, rate, origin)
        elif schedule is not None and self.scheduler is not None:
            for key, _, where in rate:
                self.faults.warn(f"has no effect; {_schedule_in_force(self.scheduler)}", where, key)

    def _build_decay(self, decay: list[Text], rate: list[Text], origin: Origin) -> None:
        if not rate and self.optimizer is not None:
            rate = [("learning_rate", repr(self.optimizer.learning_rate), origin)]
        with self.faults.gather(origin, decay[0][0]):
            schedule = SCHEDULERS.load("exponential")
            self.scheduler = schedule.from_texts([*rate, *decay], self.faults, origin)

    def _in_force(self, key: str) -> str:
        if key in ("learning_rate", *_DECAY) and self.scheduler is not None:
            return _schedule_in_force(self.scheduler)
        value = getattr(self.optimizer, key, None)
        if self.optimizer is None or value is None:
            return "none is in force"
        return f"{self.optimizer.keyword} with {key} = {value!r} is in force"

    def _configured(
        self,
        registry: Registry,
        entries: Sequence[Text],
        origin: Origin,
        default: str | None,
        type_key: str = "type",
    ) -> Any:
        """The thing whose keyword the entry ``type_key`` holds, with the others as its properties; None for a fault."""
        if type_key in self.faults.keys(origin):
            return None  # it is there, but cannot be read
        word, where = next(((text, at) for key, text, at in entries if key == type_key), (default, origin))
        if word is None:
            known = ", ".join(registry.words())
            self.faults.add(f"required, expected one of {known}", origin, type_key)
            return None
        cls = self._looked_up(registry, word, where, type_key)
        rest = [entry for entry in entries if entry[0] != type_key]
        return cls.from_texts(rest, self.faults, origin) if cls is not None else None

    def _looked_up(self, registry: Registry, word: str, where: Origin, key: str) -> type[Any] | None:
        try:
            return registry.load(word)
        except UsageError as error:
            self.faults.absorb(error, where, key)
            return None

    def _read_old_data(self) -> None:
        """``[DataSet]``: up to three files in one section."""
        section = self.ini.get(OLD_DATA)
        if section is None:
            return
        entries = {key: (key, text, where) for key, text, where in self.ini.items(section)}
        origin = self.ini.origin(section)
        known = (*OLD_DATA_KEYS, "labeldata", *_BUFFER)
        for key, _, where in entries.values():
            if key == "labeldata":
                self.faults.warn("has no effect; labels stand behind the inputs of each sample", where, key)
            elif key not in known:
                self.faults.add(f"unknown property of [DataSet]{did_you_mean(key, known)}", where, key)
        if all(key in entries for key in _BUFFER):
            self.faults.add(f"set before as {_BUFFER[0]}", entries[_BUFFER[1]][2], _BUFFER[1])
        if "traindata" not in entries and "traindata" not in self.faults.keys(origin):
            self.faults.add("required, expected a path", origin, "traindata")
        buffer = [("buffer_size", *entries[key][1:]) for key in _BUFFER if key in entries][:1]
        for key, name in OLD_DATA_KEYS.items():
            if key in entries and self.ini.get(name) is None:
                _, text, where = entries[key]
                new: list[Text] = [("type", "file", where), ("path", text, where), *buffer]
                self._keep(self._data(name, new, where))
            elif key in entries:
                self.faults.warn(f"has no effect; [{name}] is in force", entries[key][2], key)

    def _data(self, name: str, entries: list[Text], origin: Origin) -> SectionSpec | None:
        if "type" in self.faults.keys(origin):
            return None  # it is there, but cannot be read
        word, where = next(((text, at) for key, text, at in entries if key == "type"), (None, origin))
        if word is None:
            known = ", ".join(DATASETS.words())
            self.faults.add(f"required, expected one of {known}", origin, "type")
            return None
        cls = self._looked_up(DATASETS, word, where, "type")
        return self._section(name, cls, entries, origin) if cls is not None else None

    def _section(self, name: str, cls: type[Configurable], entries: list[Text], origin: Origin) -> SectionSpec | None:
        typed = cls.find_property("type") is not None
        rest = [entry for entry in entries if typed or entry[0] != "type"]
        settings = cls.from_texts(rest, self.faults, origin)
        if settings is None:
            return None
        return SectionSpec(name, settings, tuple(entries), origin, resolved(settings, self.folder))

    def _keep(self, section: SectionSpec | None) -> None:
        if section is not None:
            self.sections[section.name] = section


def resolved(settings: Configurable, folder: Path) -> dict[str, Path]:
    """The paths that the properties of a thing give, by key, each resolved as a file to be read."""
    declared = type(settings).properties()
    return {key: find(value, folder) for key, value in settings.explicit().items() if is_path(declared, key)}


def is_path(declared: Mapping[str, object], key: str) -> bool:
    """Whether the property of a key holds a path."""
    return isinstance(getattr(declared[key], "kind", None), PathKind)


def _schedule_in_force(schedule: Configurable) -> str:
    values = ", ".join(f"{key} = {text}" for key, text in schedule.texts().items())
    return f"[LearningRateScheduler] {schedule.keyword} with {values} is in force"
