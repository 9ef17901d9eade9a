"""layers"""

from __future__ import annotations

if __name__ != "nntrainer_py.layers":
    raise ImportError("the link 'layers' is for readers; import nntrainer_py.layers instead")
