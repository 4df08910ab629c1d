"""A checkpoint that is larger than any that is written is rejected before it is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegauge.impl.ports.disk import RealDisk, RealFile
from tidegauge.impl.storage.checkpoints import MOST_BYTES, read_text


def test_a_checkpoint_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(MOST_BYTES + 1)

    def refused(*_: object) -> bytes:
        raise AssertionError("it is read")

    monkeypatch.setattr(RealFile, "read", refused)
    assert read_text(RealDisk(), str(tmp_path), "large") is None
