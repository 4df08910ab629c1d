"""kafkajs and @platformatic/kafka, under node; `make clients` installs them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent / "javascript"


def needs(library: str) -> pytest.MarkDecorator:
    there = shutil.which("node") is not None and (HERE / "node_modules" / library).is_dir()
    return pytest.mark.skipif(not there, reason=f"{library} is not installed: make clients")


def seen_by(script: str, bootstrap: str, topic: str) -> Any:
    """What a script prints."""
    words = ["node", str(HERE / script), bootstrap, topic]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@needs("kafkajs")
def test_a_javascript_client_makes_a_topic_produces_and_lists_offsets(bootstrap: str, cluster: Any) -> None:
    assert seen_by("round_trip.cjs", bootstrap, f"javascript-{cluster.size}") == {
        "offsets": ["0", "3"],
        "ends": {"0": "6", "1": "0"},
        "partitions": 2,
        "brokers": cluster.size,
        "deleted": True,
    }


@needs("@platformatic/kafka")
def test_another_javascript_client_does_all_that_its_admin_offers(bootstrap: str, cluster: Any) -> None:
    assert seen_by("platformatic.mjs", bootstrap, f"platformatic-{cluster.size}") == {
        "brokers": cluster.size,
        "offsets": {"none": 0, "gzip": 3, "snappy": 6, "lz4": 9},
        "ends": [0, 12],
        "low": 4,
        "fetched": [3, 6, 9],
        "directories": cluster.size,
    }
