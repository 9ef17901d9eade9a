"""losses"""

from __future__ import annotations

if __name__ != "nntrainer_py.losses":
    raise ImportError("the link 'losses' is for readers; import nntrainer_py.losses instead")
