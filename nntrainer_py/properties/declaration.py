"""A property is declared once, on a class; `Configurable` makes constructor, checks and INI form of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, Generic, Self, TypeVar, cast, overload
from weakref import WeakKeyDictionary

from nntrainer_py.errors import DescriptionError, Faults, Origin, PropertyError, UsageError, did_you_mean, nearest
from nntrainer_py.properties.kinds import Kind, Warn, warn_python

T = TypeVar("T")


class Required:
    """The type of `REQUIRED`."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = Required()


class Property(Generic[T]):
    """One declared property: a kind of value, a default (or `REQUIRED`), a description and other spellings of its key.

    On an instance it reads as its value, typed; assigning checks. On the class it is the declaration itself.
    """

    name: str = ""

    def __init__(self, kind: Kind[Any], default: T | Required, *, doc: str, aliases: Iterable[str] = ()) -> None:
        self.kind = kind
        self.doc = doc
        self.aliases = tuple(aliases)
        # a default is checked like a given value, so that declarations cannot hold what an INI file could not say
        self.default = default if isinstance(default, Required) or default is None else cast(T, kind.check(default))

    def __set_name__(self, owner: type, name: str) -> None:
        if hasattr(Configurable, name):
            raise TypeError(f"a property cannot be called {name}, {owner.__name__} needs that name itself")
        self.name = name

    @property
    def required(self) -> bool:
        """Whether a value must be given."""
        return isinstance(self.default, Required)

    @property
    def keys(self) -> tuple[str, ...]:
        """Every accepted spelling of the key, the canonical one first."""
        return (self.name, *self.aliases)

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        explicit = instance.__dict__.get("_explicit", {})
        if self.name in explicit:
            return cast(T, explicit[self.name])
        if isinstance(self.default, Required):
            raise UsageError(f"required, expected {self.kind.expectation}", key=self.name)
        return self.default

    def __set__(self, instance: object, value: T) -> None:
        instance.__dict__.setdefault("_explicit", {})[self.name] = self.check(value)

    def parse(self, text: str, warn: Warn = warn_python) -> T:
        """The value of an INI text; `PropertyError` with this property as its key."""
        try:
            return cast(T, self.kind.parse(text, warn))
        except PropertyError as error:
            raise error.located(None, self.name) from None

    def check(self, value: object, warn: Warn = warn_python) -> T:
        """The value of a Python object or INI text; None is allowed where it is the default."""
        if value is None and self.default is None:
            return cast(T, None)
        try:
            return cast(T, self.kind.check(value, warn))
        except PropertyError as error:
            raise error.located(None, self.name) from None

    def format(self, value: T) -> str:
        """INI text that parses to exactly ``value``."""
        return self.kind.format(value)

    def describe(self) -> str:
        """The syntax in a few words."""
        return self.kind.describe()

    def describe_default(self) -> str:
        """``required``, ``unset``, or the default as INI text."""
        if isinstance(self.default, Required):
            return "required"
        return "unset" if self.default is None else self.kind.format(self.default)

    def good_examples(self) -> list[str]:
        """INI texts that are accepted."""
        return self.kind.good_examples()

    def bad_examples(self) -> list[str]:
        """INI texts that are refused."""
        return self.kind.bad_examples()


class Configurable:
    """A class that is described by properties; ``keyword`` is its word in an INI file.

    A subclass inherits the properties, may redeclare one (it keeps its place), or set its name to None to do without.
    """

    keyword: ClassVar[str] = ""

    def __init__(self, **properties: object) -> None:
        declared = type(self).properties()
        explicit: dict[str, object] = self.__dict__.setdefault("_explicit", {})
        for key, value in properties.items():
            found = type(self).find_property(key)
            if found is None:
                raise UsageError(type(self).unknown_key(key), key=key)
            if found.name in explicit:
                raise UsageError(f"given twice, also as '{key}'", key=found.name)
            explicit[found.name] = found.check(value)
        for name, declaration in declared.items():
            if declaration.required and name not in explicit:
                raise UsageError(f"required, expected {declaration.kind.expectation}", key=name)
        self.validate()

    def validate(self) -> None:
        """Check properties against each other; a class overrides it and raises `UsageError` or `PropertyError`."""

    @classmethod
    def properties(cls) -> dict[str, Property[Any]]:
        """The declared properties by name: those of the base classes first, in order of declaration."""
        return dict(_declared(cls))

    @classmethod
    def find_property(cls, key: str) -> Property[Any] | None:
        """The property with this key or alias, compared without case."""
        word = key.lower()
        declared = _declared(cls)
        if word in declared:
            return declared[word]
        return next((p for p in declared.values() if word in map(str.lower, p.keys)), None)

    @classmethod
    def unknown_key(cls, key: str) -> str:
        """The message for a key that no property has, with the nearest one that does."""
        known = [spelling for p in cls.properties().values() for spelling in p.keys]
        return f"unknown property{f' of {cls.keyword}' if cls.keyword else ''}{did_you_mean(key, known)}"

    @classmethod
    def from_texts(
        cls, entries: Iterable[tuple[str, str, Origin]], faults: Faults, origin: Origin | None = None
    ) -> Self | None:
        """Build one from INI entries ``(key, text, where)``; faults go to ``faults``, and then the result is None.

        ``origin`` is the place of the whole section, named when a required property is missing.
        """
        before = len(faults)
        values: dict[str, object] = {}
        seen: dict[str, tuple[str, int]] = {}
        for key, text, where in entries:
            found = cls.find_property(key)
            if found is None:
                faults.add(cls.unknown_key(key), where, key)
            elif found.name in seen:
                spelling, line = seen[found.name]
                faults.add(f"set {f'on line {line}' if line else 'before'} already, as '{spelling}'", where, key)
            else:
                seen[found.name] = key, where.line
                with faults.gather(where, found.name):
                    values[found.name] = found.parse(text, _warner(faults, where, found.name))
        missing = [name for name, declared in cls.properties().items() if declared.required and name not in seen]
        meant = cls._meant(faults, origin) if missing else ()
        for name in missing:
            if name not in meant:
                declaration = cls.properties()[name]
                faults.add(f"required, expected {declaration.kind.expectation}", origin, name)
        if missing or len(faults) > before:
            return None
        try:
            return cls(**values)
        except (UsageError, DescriptionError) as error:
            faults.absorb(error, origin)
            return None

    @classmethod
    def _meant(cls, faults: Faults, origin: Origin | None) -> set[str]:
        """Properties that are there but misspelled or unreadable, which is told already: they are not missing, too."""
        keys = faults.keys(origin)
        known = [spelling for p in cls.properties().values() for spelling in p.keys]
        near = (cls.find_property(key) or cls.find_property(nearest(key, known) or "") for key in keys)
        return {found.name for found in near if found is not None}

    def explicit(self) -> Mapping[str, Any]:
        """The values that were given, in order of declaration; a value of None counts as not given."""
        given = self.__dict__.get("_explicit", {})
        return {name: given[name] for name in type(self).properties() if given.get(name) is not None}

    def texts(self) -> dict[str, str]:
        """The values that were given as INI text, in order of declaration."""
        declared = type(self).properties()
        return {name: declared[name].format(value) for name, value in self.explicit().items()}

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.explicit().items())
        return f"{type(self).__name__}({given})"


_declarations: WeakKeyDictionary[type, dict[str, Property[Any]]] = WeakKeyDictionary()


def _declared(cls: type) -> dict[str, Property[Any]]:
    if cls in _declarations:
        return _declarations[cls]
    found: dict[str, Property[Any]] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, Property):
                found[name] = value
            else:
                found.pop(name, None)
    _declarations[cls] = found
    return found


def _warner(faults: Faults, where: Origin, key: str) -> Warn:
    return lambda message: faults.warn(message, where, key)
