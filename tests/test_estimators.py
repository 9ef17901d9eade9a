"""The estimators against scikit-learn's own checks, and in its pipelines and searches."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_regression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from nntrainer_py import Model, NNClassifier, NNRegressor
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.input import Input
from nntrainer_py.optimizers.adam import Adam

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")


@parametrize_with_checks([NNClassifier(threads=1), NNRegressor(threads=1)])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_pipeline_and_grid_search():
    x, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    pipeline = make_pipeline(StandardScaler(), NNClassifier(epochs=20, threads=1, random_state=0))
    grid = {"nnclassifier__hidden_units": [(8,), (16, 8)], "nnclassifier__learning_rate": [0.01, 0.03]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(x, names[y])
    assert search.best_score_ > 0.9
    assert set(search.predict(x)) == set(names)
    np.testing.assert_allclose(search.predict_proba(x).sum(axis=1), 1.0)


def test_regression_of_several_targets():
    x, y = make_regression(120, 5, n_targets=2, noise=1.0, random_state=0)
    model = NNRegressor(epochs=60, threads=1, random_state=0)
    assert cross_val_score(model, x, y, cv=3).min() > 0.9
    assert model.fit(x, y).predict(x).shape == y.shape
    assert model.fit(x, y[:, 0]).predict(x).shape == (120,)


def test_the_seed_decides():
    x, y = load_iris(return_X_y=True)
    first = NNClassifier(epochs=3, dropout=0.2, random_state=1, threads=1).fit(x, y)
    again, other = clone(first).fit(x, y), clone(first).set_params(random_state=2).fit(x, y)
    np.testing.assert_array_equal(first.predict_proba(x), again.predict_proba(x))
    assert (first.predict_proba(x) != other.predict_proba(x)).any()


def test_early_stopping_on_samples_kept_apart():
    x, y = load_iris(return_X_y=True)
    model = NNClassifier(epochs=500, validation_fraction=0.2, patience=5, random_state=0, threads=1).fit(x, y)
    assert model.n_epochs_ < 500
    assert model.score(x, y) > 0.9
    assert len(model.history_) == model.n_epochs_
    assert model.history_[0].valid_loss is not None


def _linear(inputs, outputs):
    layers = [Input(input_shape=f"1:1:{inputs}"), FullyConnected(unit=outputs, activation="softmax")]
    return Model.build(layers, model={"loss": "cross"}, optimizer=Adam(learning_rate=0.05))


def test_a_model_of_ones_own(tmp_path):
    x, y = load_iris(return_X_y=True)
    assert NNClassifier(model=_linear, epochs=50, threads=1).fit(x, y).score(x, y) > 0.8
    ini = tmp_path / "model.ini"
    ini.write_text(
        "[Model]\nloss = cross\n[Optimizer]\ntype = adam\nlearning_rate = 0.05\n"
        "[in]\ntype = input\ninput_shape = 1:1:4\n[out]\ntype = fully_connected\nunit = 3\nactivation = softmax\n"
    )
    assert NNClassifier(model=ini, epochs=50, threads=1).fit(x, y).score(x, y) > 0.8
    with pytest.raises(ValueError, match="the model has 1 output of 3 values, the targets need 2"):
        NNClassifier(model=ini, epochs=1, threads=1).fit(x[y < 2], y[y < 2])


def test_without_scikit_learn_the_extra_is_named():
    program = (
        "import sys; sys.modules['sklearn'] = None; import nntrainer_py; nntrainer_py.Model; nntrainer_py.NNClassifier"
    )
    environment = {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert 'pip install "nntrainer_py[sklearn]"' in done.stderr


def test_labels_as_words_integers_and_floats():
    """Classes are what was fitted, and floats equal to the integers are the same."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 40)
    x = rng.normal(size=(40, 2)) + 3.0 * y[:, None]
    made = NNClassifier((4,), epochs=40, random_state=0).fit(x, y)
    assert made.classes_.tolist() == [0, 1]
    assert made.score(x, y.astype(float)) == made.score(x, y) > 0.9
    words = np.array(["no", "yes"])[y]
    named = NNClassifier((4,), epochs=40, random_state=0).fit(x, words)
    assert named.classes_.tolist() == ["no", "yes"]
    assert (named.predict(x) == np.array(["no", "yes"])[made.predict(x)]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fitting_copies_the_features_once(dtype):
    x = np.random.default_rng(0).random((20_000, 40)).astype(dtype)
    y = (x[:, 0] > 0.5).astype(int)
    scaled = 4 * x.size

    def fit():
        NNClassifier(hidden_units=(2,), epochs=1, batch_size=1000, shuffle=False, random_state=0).fit(x, y)

    fit()
    tracemalloc.start()
    try:
        fit()
        assert tracemalloc.get_traced_memory()[1] < scaled + (2 << 20)
    finally:
        tracemalloc.stop()


def test_scaling_is_that_of_float64():
    x = (np.random.default_rng(0).random((70_000, 3)) * [1, 1e-3, 1e6] + [1e3, 0, 5]).astype(np.float32)
    x[:, 2] = 0.1
    wide = x.astype(np.float64)
    model = NNRegressor(hidden_units=(), epochs=1, batch_size=7000, random_state=0).fit(x, x[:, 0])
    np.testing.assert_allclose(model._shift, wide.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(model._scale[:2], wide.std(axis=0)[:2], rtol=1e-9)
    assert model._scale[2] == 1
    expected = np.asarray((wide - model._shift) / model._scale, np.float32)
    np.testing.assert_array_equal(model._scaled(x), expected)
