"""Batch normalization: statistics, running update, normalise, sums, derivative."""

from __future__ import annotations

from dataclasses import dataclass

from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter


@dataclass(frozen=True, slots=True)
class Channels:
    """The operands of one operation; parameters in the shape that broadcasts against ``x``."""

    e: Emission

    @property
    def x(self) -> Term:
        return self.e.read("x")

    @property
    def others(self) -> tuple[int, ...]:
        """The axes that are summed over."""
        return tuple(axis for axis in range(len(self.x.shape)) if axis != self.e.attributes["axis"])

    @property
    def count(self) -> int:
        """Elements of one channel."""
        axis: int = self.e.attributes["axis"]
        return self.x.size // self.x.shape[axis]

    def parameter(self, name: str) -> Term:
        term = self.e.read(name)
        shape = [1] * len(self.x.shape)
        shape[self.e.attributes["axis"]] = term.size
        return term.reshape(*shape)

    @property
    def inverse(self) -> Term:
        """One over the standard deviation."""
        return 1.0 / (self.parameter("variance") + float(self.e.attributes["epsilon"])).apply("Sqrt")

    @property
    def normal(self) -> Term:
        """``x`` with mean 0 and variance 1."""
        return (self.x - self.parameter("mean")) * self.inverse

    @property
    def affine(self) -> Term:
        return self.normal * self.parameter("gamma") + self.parameter("beta")

    def sums(self, g: Term) -> dict[str, Term]:
        """Gradients of gamma and beta from the gradient of the affine result."""
        return {"dgamma": (g * self.normal).sum(self.others), "dbeta": g.sum(self.others)}

    def derivative(self, g: Term) -> dict[str, Term]:
        """The gradient of ``x`` through the statistics."""
        share = 1.0 / self.count
        through = self.parameter("dbeta") * share + self.normal * (self.parameter("dgamma") * share)
        return {"out": (self.parameter("gamma") * self.inverse) * (g - through)}


def batch_statistics(e: Emission) -> dict[str, Term]:
    channels, x = Channels(e), e.read("x")
    mean = x.mean(channels.others)
    centred = x - mean
    return {"mean": mean, "variance": (centred * centred).mean(channels.others)}


def running_update(e: Emission) -> dict[str, Term]:
    momentum, running = float(e.attributes["momentum"]), e.read("running")
    return {"running": running * momentum + e.read("batch").reshape(*running.shape) * (1.0 - momentum)}


def batch_normalize(e: Emission) -> dict[str, Term]:
    return {"out": Channels(e).affine}


def batch_normalize_sums(e: Emission) -> dict[str, Term]:
    return Channels(e).sums(e.read("g"))


def batch_normalize_derivative(e: Emission) -> dict[str, Term]:
    return Channels(e).derivative(e.read("g"))


EMITTERS: dict[str, Emitter] = {
    f.__name__: f
    for f in (batch_statistics, running_update, batch_normalize, batch_normalize_sums, batch_normalize_derivative)
}
