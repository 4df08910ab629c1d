"""kafkajs, under node; `make clients` installs it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent / "javascript"

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not (HERE / "node_modules" / "kafkajs").is_dir(),
    reason="kafkajs is not installed: make clients",
)


def test_a_javascript_client_makes_a_topic_produces_and_lists_offsets(bootstrap: str, cluster: Any) -> None:
    words = ["node", str(HERE / "round_trip.cjs"), bootstrap, f"javascript-{cluster.size}"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "offsets": ["0", "3"],
        "ends": {"0": "6", "1": "0"},
        "partitions": 2,
        "brokers": cluster.size,
        "deleted": True,
    }
