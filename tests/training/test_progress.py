"""The bar of Python callers."""

from __future__ import annotations

import sys
import types

from small_models import classifier, data

from nntrainer_py.training.progress import ProgressBar, in_notebook, progress_callbacks


def test_a_bar_on_request(capsys):
    classifier().train(*data(20), valid=data(9, 1), epochs=2, progress=True)
    shown = capsys.readouterr().err
    for text in ("epoch 1/2", "epoch 2/2", "3/3", "valid_accuracy="):
        assert text in shown
    classifier().train(*data(20))
    assert capsys.readouterr() == ("", "")


def test_a_bar_in_a_notebook(monkeypatch):
    assert not in_notebook()
    assert progress_callbacks(None) == []
    module = types.ModuleType("IPython")
    shell = type("ZMQInteractiveShell", (), {})()
    module.get_ipython = lambda: shell  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", module)
    assert in_notebook()
    (bar,) = progress_callbacks(None)
    assert isinstance(bar, ProgressBar)
    assert progress_callbacks(False) == []


def test_a_bar_ends_with_a_run_that_fails(capsys):
    import numpy as np
    import pytest

    from nntrainer_py import NumericalError

    x, y = data(20)
    x[15] = np.nan
    with pytest.raises(NumericalError):
        classifier().train(x, y, shuffle=False, progress=True)
    assert capsys.readouterr().err.endswith("\n")
