"""The micro-kernel's tile for each processor, and its code for aarch64, which any machine can generate.

``.ci/aarch64`` runs the kernels there, in an emulator.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir

from nntrainer_py.tensor.kernels import dot_kernel, micro_kernel

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("features", "architecture", "tile"),
    [
        ("+avx,+avx2,+avx512f,+avx512vl,+fma", "x86_64", (8, 2, 16)),
        ("+avx,+avx2,+fma,-avx512f", "x86_64", (6, 2, 8)),
        ("+sse2", "x86_64", (4, 2, 4)),
        ("+neon,+fp-armv8", "aarch64", (6, 4, 4)),
        ("", "riscv64", (4, 2, 4)),
    ],
)
def test_tile(features, architecture, tile):
    assert micro_kernel.tile_shape(features, architecture) == tile


def assembly(monkeypatch, tile, emit, triple, cpu):
    rows, vectors, lanes = tile
    for module in (micro_kernel, dot_kernel):
        monkeypatch.setattr(module, "LANES", lanes)
        monkeypatch.setattr(module, "VECTORS", vectors)
    monkeypatch.setattr(micro_kernel, "ROWS", rows)
    monkeypatch.setattr(micro_kernel, "COLUMNS", vectors * lanes)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        target = llvm.Target.from_triple(triple)
    except RuntimeError:
        pytest.skip(f"this LLVM generates no code for {triple}")
    module = ir.Module()
    emit(module).linkage = "external"
    parsed = llvm.parse_assembly(str(module))
    machine = target.create_target_machine(cpu=cpu, opt=3)
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    passes.getModulePassManager().run(parsed, passes)
    return machine.emit_assembly(parsed)


def loops(text):
    """The instructions of each stretch between a label and the jump back to it."""
    lines, found = [line.strip() for line in text.splitlines()], []
    for start, line in enumerate(lines):
        if line.startswith(".L") and line.split("//")[0].strip().endswith(":"):
            label = line.split(":")[0]
            for end in range(start + 1, len(lines)):
                if lines[end].startswith("b.") and lines[end].split()[-1] == label:
                    found.append(lines[start + 1 : end])
                    break
    return found


def multiplies(lines):
    return sum(line.startswith("fmla") for line in lines)


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("cpu", ["generic", "cortex-a76", "neoverse-v1"])  # the last one has SVE
def test_aarch64_keeps_the_tile_in_registers(monkeypatch, indexed, cpu):
    def emit(module):
        return micro_kernel._product_function(module, indexed)

    text = assembly(monkeypatch, (6, 4, 4), emit, "aarch64-linux-gnu", cpu)
    for rows in (6, 4, 2, 1):
        inner = [lines for lines in loops(text) if multiplies(lines) == 4 * rows]  # rows of 4 vectors
        assert inner, rows
        assert not [line for line in min(inner, key=len) if line.startswith(("str", "stp"))]  # nothing is spilled


def test_aarch64_dot_kernel_multiplies_and_adds_at_once(monkeypatch):
    def emit(module):
        return dot_kernel._function(module, 6, 5)

    text = assembly(monkeypatch, (6, 4, 4), emit, "aarch64-linux-gnu", "cortex-a76")
    assert 30 in [multiplies(lines) for lines in loops(text)]


@pytest.mark.slow
@pytest.mark.skipif("x86_64" not in llvm.get_process_triple(), reason="processors of the x86 family only")
@pytest.mark.parametrize("features", ["+sse,+sse2", "+sse,+sse2,+sse3,+ssse3,+sse4.1,+sse4.2,+avx,+avx2,+fma"])
def test_kernels_on_lesser_processors(features, tmp_path):
    if "+avx2" in features and not llvm.get_host_cpu_features().get("avx2"):
        pytest.skip("this processor has no AVX2")
    environment = {**os.environ, "NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": features}
    environment["NNTRAINER_CACHE_DIR"] = str(tmp_path)
    files = [str(HERE / f"test_{name}.py") for name in ("matmul", "convolution", "convolution_small", "winograd")]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, env=environment, cwd=HERE.parents[2], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-3000:]


def test_transpose_writes_no_more_than_it_should():
    from nntrainer_py.tensor.kernels.winograd_phases import _turn_back

    lanes = micro_kernel.LANES
    source = np.arange(2 * lanes * lanes, dtype=np.float32).reshape(2 * lanes, lanes)
    for pixels in (1, lanes - 1, lanes, lanes + 1, 2 * lanes):
        target = np.full((lanes, pixels + 3), -1, np.float32)
        _turn_back(source.ctypes.data, pixels, target.ctypes.data, pixels + 3)
        np.testing.assert_array_equal(target[:, :pixels], source[:pixels].T)
        np.testing.assert_array_equal(target[:, pixels:], -1)
