"""Metrics against scikit-learn's, and the tally of an epoch against plain NumPy."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from sklearn import metrics as sk
from small_models import CLASSES, classifier, data

from nntrainer_py.data.arrays import ArrayDataset
from nntrainer_py.data.loader import BatchLoader
from nntrainer_py.errors import UsageError
from nntrainer_py.graph.description import load_text
from nntrainer_py.model import Model
from nntrainer_py.training import metrics
from nntrainer_py.training.evaluation import evaluate_classes


@pytest.fixture
def scores():
    random = np.random.default_rng(0)
    return random.normal(size=(200, 7)).astype(np.float32), random.integers(0, 7, 200)


def test_accuracy_and_top_k(scores):
    rows, labels = scores
    assert metrics.accuracy(rows, labels) == sk.accuracy_score(labels, rows.argmax(axis=1))
    assert metrics.accuracy(rows, np.eye(7)[labels]) == metrics.accuracy(rows, labels)
    assert metrics.top_k_accuracy(rows, labels, 7) == 1.0
    for k in (1, 2, 5):
        assert metrics.top_k_accuracy(rows, labels, k) == sk.top_k_accuracy_score(labels, rows, k=k, labels=range(7))


def test_ties_and_nan():
    assert metrics.top_k_accuracy([[1.0, 1.0, 0.0]], [0], 1) == 1.0
    assert metrics.top_k_accuracy([[1.0, 1.0, 0.0]], [1], 1) == 0.0
    assert metrics.top_k_accuracy([[1.0, 1.0, 0.0]], [1], 2) == 1.0
    assert metrics.top_k_accuracy([[np.nan, 1.0, 0.0]], [0], 3) == 0.0


def test_confusion_precision_recall_f1(scores):
    rows, labels = scores
    found = rows.argmax(axis=1)
    labels = np.where(labels == 6, 0, labels)  # a class without samples
    matrix = metrics.confusion_matrix(rows, labels)
    np.testing.assert_array_equal(matrix, sk.confusion_matrix(labels, found, labels=range(7)))
    figures = metrics.precision_recall_f1(matrix)
    wanted = sk.precision_recall_fscore_support(labels, found, labels=range(7), zero_division=0.0)
    for mine, theirs in zip((figures.precision, figures.recall, figures.f1, figures.support), wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-14)


def test_mae_and_r2():
    random = np.random.default_rng(1)
    y, t = random.normal(size=(2, 50))
    assert metrics.mean_absolute_error(y, t) == pytest.approx(sk.mean_absolute_error(t, y), rel=1e-14)
    assert metrics.r2_score(y, t) == pytest.approx(sk.r2_score(t, y), rel=1e-12)
    assert metrics.r2_score([1.0, 1.0], [1.0, 1.0]) == 1.0
    assert metrics.r2_score([1.0, 2.0], [1.0, 1.0]) == 0.0


def test_lengths_must_agree():
    for a, b in (([1, 2], [1]), ([], [])):
        with pytest.raises(UsageError, match="as many predictions as labels"):
            metrics.accuracy(a, b)


def test_report_over_batches_is_that_of_all_samples():
    x, y = data(37)
    model = classifier()
    model.train(x, y, epochs=2)
    dataset = ArrayDataset(x, y)
    model.bind(dataset)
    found, report = evaluate_classes(model.compiled, BatchLoader(dataset, 8), names=("a", "b", "c"))
    assert found == model.evaluate(x, y)
    probabilities = model.predict(x).reshape(37, CLASSES)
    np.testing.assert_array_equal(report.confusion, metrics.confusion_matrix(probabilities, y, CLASSES))
    assert report.accuracy == found["accuracy"]
    assert report.top == {1: found["accuracy"]}  # 5 is more than there are classes
    record = report.as_record()
    assert [row["name"] for row in record["classes"]] == ["a", "b", "c"]
    assert record["macro"]["f1"] == pytest.approx(sk.f1_score(y, probabilities.argmax(axis=1), average="macro"))


def test_a_report_takes_little_memory_whatever_the_number_of_samples_and_classes():
    """Neither predictions are kept nor tables of a whole batch made: 1000 classes take a byte a cell at first."""
    random = np.random.default_rng(2)
    scores, labels = random.random((3000, 1000), np.float32), random.integers(0, 1000, 3000)
    tracemalloc.start()
    try:
        report = metrics.ClassReport(1000)
        report.add(scores, labels)
        report.add(scores, labels)
        assert tracemalloc.get_traced_memory()[1] < 6 << 20
    finally:
        tracemalloc.stop()
    wanted = 2 * metrics.confusion_matrix(scores, labels, 1000)
    np.testing.assert_array_equal(report.confusion, wanted)
    assert report.top == {k: metrics.top_k_accuracy(scores, labels, k) for k in (1, 5)}
    cells = report.as_record()["confusion"]
    found = np.zeros((1000, 1000), int)
    found[cells["true"], cells["predicted"]] = cells["count"]
    np.testing.assert_array_equal(found, wanted)


def test_counts_widen_with_the_samples():
    report = metrics.ClassReport(2)
    for count in (127, 1, 40_000):
        report.add(np.tile(np.float32([0, 1]), (count, 1)), np.ones(count, int))
    np.testing.assert_array_equal(report.confusion, [[0, 0], [0, 40_128]])
    assert (report.accuracy, report.figures.support.tolist()) == (1.0, [0, 40_128])


def test_one_probability_is_that_of_the_second_class():
    random = np.random.default_rng(3)
    scores, labels = random.random((200, 1), np.float32), random.integers(0, 2, (200, 1)).astype(np.float32)
    report = metrics.ClassReport(2)
    report.add(scores, labels)
    np.testing.assert_array_equal(report.confusion, sk.confusion_matrix(labels[:, 0], scores[:, 0] > 0.5))
    assert report.top == {1: report.accuracy}


def test_the_class_report_of_one_output_keeps_no_prediction():
    count = 400_000
    x = np.random.default_rng(4).random((count, 1), np.float32)
    y = (x > 0.25).astype(np.float32)
    text = "[Model]\nloss = cross\nbatch_size = 2000\n[in]\ntype = input\ninput_shape = 1:1:1\n"
    model = Model(load_text(f"{text}[fc]\ntype = fully_connected\nunit = 1\nactivation = sigmoid\n"))
    dataset = ArrayDataset(x, y)
    model.bind(dataset)
    loader = BatchLoader(dataset, 2000, buffer_size=0)
    evaluate_classes(model.compiled, loader)
    tracemalloc.start()
    try:
        found, report = evaluate_classes(model.compiled, loader)
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()
    assert report.confusion.sum() == count
    assert report.accuracy == pytest.approx(found["accuracy"])
    np.testing.assert_array_equal(report.confusion.sum(axis=1), [(y == 0).sum(), (y == 1).sum()])
