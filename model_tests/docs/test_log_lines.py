"""docs/logging.md lists every log line with its level, and no other."""

from __future__ import annotations

from pathlib import Path

from tidegauge.model_tests.docs.log_lines import ROOT, documented, logged

LISTED = documented((ROOT / "docs" / "logging.md").read_text("utf-8"))


def test_the_page_lists_every_line_with_its_level() -> None:
    missing = sorted({(line, level) for line, level in logged() if LISTED.get(line) != level})
    assert not missing, f"docs/logging.md lacks these lines, or says another level: {missing}"


def test_the_page_lists_no_line_that_nothing_logs() -> None:
    assert sorted(set(LISTED) - {line for line, _ in logged()}) == []


def test_a_line_that_is_not_listed_is_found(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text('log_event(LOGGER, logging.WARNING, "disk on fire", why="heat")\n')
    assert list(logged(tmp_path)) == [("disk on fire", "warning")]
