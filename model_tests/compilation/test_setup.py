"""Setup compiles all that numba compiles: what it leaves out each process would compile again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba", reason="numba is not installed")

ROOT = Path(__file__).parents[2]
PROGRAM = """
import runpy, sys
from numba.extending import is_jitted

runpy.run_path("tools/compile.py", run_name="__main__")
ours = [module for name, module in [*sys.modules.items()] if name.startswith("tidegauge.")]
compiled = {one for module in ours for one in vars(module).values() if is_jitted(one)}
assert len(compiled) > 50
print(*sorted(f"{one.__module__}.{one.__name__}" for one in compiled if not one.signatures))
"""


@pytest.mark.deep
def test_no_function_is_left_to_be_compiled_by_each_process(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
