"""A schedule of one's own: down in a straight line, and up again with a jump."""

from nntrainer_py import Schedule, register_scheduler
from nntrainer_py.properties import number, positive_int


@register_scheduler("sawtooth")
class Sawtooth(Schedule):
    learning_rate = number(above=0.0, doc="Rate at the top of each tooth.")
    period = positive_int(doc="Steps of a tooth.")

    def at(self, t):
        return self.learning_rate * (1 - (t % self.period) / self.period)
