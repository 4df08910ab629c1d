"""kio is imported without Hypothesis, which may be imported before or after."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        ("import tidegauge.impl, sys; print('hypothesis' in sys.modules)", "False"),
        ("import tidegauge.impl, hypothesis; print(hypothesis.__name__)", "hypothesis"),
        (
            "import hypothesis, tidegauge.impl; from hypothesis import strategies as st; "
            "from kio.static.primitive import i8; print(bool(st.from_type(i8).validate() is None))",
            "True",
        ),
        (
            "import tidegauge.impl; from kio.static import _phantom; print(_phantom.hypothesis)",
            "None",
        ),
    ],
    ids=["not imported", "imported afterwards", "imported before", "kio does without"],
)
def test_kio_is_imported_without_hypothesis(program: str, printed: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == printed, done.stderr
