"""Published test vectors: every layer case and model case, each by its own tolerance."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from kit import Case, cases, run_layer, run_model, supported


@pytest.mark.parametrize("case", cases("layer"), ids=lambda case: case["name"])
def test_layer_case(case: Case) -> None:
    run_layer(case)


@pytest.mark.parametrize("case", cases("model"), ids=lambda case: case["name"])
def test_model_case(case: Case) -> None:
    run_model(case)


@pytest.mark.parametrize("case", cases("model"), ids=lambda case: case["name"])
def test_model_case_as_it_is_trained(case: Case) -> None:
    """With operations fused: weights and losses."""
    run_model(case, fused=True)


def test_table_per_type(capsys: pytest.CaptureFixture[str]) -> None:
    """Prints how many cases there are per layer type; every one of them has its layers here."""
    table: dict[str, int] = {}
    missing = []
    for case in [*cases("layer"), *cases("model")]:
        table[case.get("layer_type", "models")] = table.get(case.get("layer_type", "models"), 0) + 1
        if not supported(case):
            missing.append(case["name"])
    table["execution orders"] = len(cases("exec_order"))
    with capsys.disabled():
        print("\nconformance cases: " + ", ".join(f"{name} {count}" for name, count in sorted(table.items())))
    assert not missing
