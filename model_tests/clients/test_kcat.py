"""kcat, with the librdkafka that the distribution ships."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tidegauge.model_tests.clients.conftest import FreshTopic

pytestmark = pytest.mark.skipif(
    shutil.which("kcat") is None, reason="kcat is not installed (Debian: apt-get install kcat)"
)


def kcat(bootstrap: str, *words: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["kcat", "-b", bootstrap, *words], input=stdin, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_go_in_and_come_out(bootstrap: str, fresh_topic: FreshTopic, compression: str) -> None:
    topic = fresh_topic()
    lines = "".join(f"key{n}:value {n}\n" for n in range(100))
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", "-K", ":", "-z", compression, stdin=lines)
    assert kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-K", ":", "-e", "-q", "-o", "beginning") == lines


def test_the_cluster_is_listed(bootstrap: str, fresh_topic: FreshTopic) -> None:
    topic = fresh_topic(partitions=3)
    listed = kcat(bootstrap, "-L")
    assert f'topic "{topic}" with 3 partitions' in listed
