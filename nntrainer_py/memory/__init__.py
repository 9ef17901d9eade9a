"""Where tensors lie: lifetimes, the planner of one arena, and the arena. Knows no layer."""

from __future__ import annotations

from nntrainer_py.memory.nntrainer_planners import PLANNERS, Planner
from nntrainer_py.memory.picture import draw
from nntrainer_py.memory.planner import Placement, Request, lower_bound, peak, place, validate

__all__ = ["PLANNERS", "Placement", "Planner", "Request", "draw", "lower_bound", "peak", "place", "validate"]
