"""optimizers"""

from __future__ import annotations

if __name__ != "nntrainer_py.optimizers":
    raise ImportError("the link 'optimizers' is for readers; import nntrainer_py.optimizers instead")
