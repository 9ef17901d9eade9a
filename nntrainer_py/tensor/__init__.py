"""tensor"""

from __future__ import annotations

if __name__ != "nntrainer_py.tensor":
    raise ImportError("the link 'tensor' is for readers; import nntrainer_py.tensor instead")
