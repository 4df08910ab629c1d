"""Hypothesis draws the same examples whatever modules are loaded."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import hypothesis
import pytest
from hypothesis import strategies as st

RARE = 74_123_987_651
"""A number that nobody draws by chance."""


def drawn() -> list[int]:
    found: list[int] = []

    @hypothesis.settings(max_examples=300, derandomize=True, database=None)
    @hypothesis.given(st.integers())
    def draw(number: int) -> None:
        found.append(number)

    draw()
    return found


def test_a_module_that_is_loaded_later_changes_no_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = drawn()
    source = tmp_path / "loaded_later.py"
    source.write_text(f"NUMBER = {RARE}\n")
    module = ModuleType("loaded_later")
    module.__file__ = str(source)
    monkeypatch.setitem(sys.modules, "loaded_later", module)
    assert RARE not in before
    assert drawn() == before
