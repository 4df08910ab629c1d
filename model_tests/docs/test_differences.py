"""docs/differences.md names tests that there are, and docs/apis.md is what the code says."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import attrs
import pytest

from tidegauge.impl.cluster.cluster import Cluster
from tidegauge.impl.cluster.options import DEFAULTS
from tidegauge.impl.cluster.running_cluster import IMPATIENT
from tidegauge.impl.metadata.topic_configs import MIN_INSYNC_REPLICAS, TOPIC_CONFIGS, UNCLEAN_LEADER_ELECTION_ENABLE
from tidegauge.impl.server.settings.server_config import SERVER_CONFIGS, ServerConfig
from tidegauge.impl.storage.config import LogConfig
from tidegauge.model_tests.docs import api_page

TESTS = Path(__file__).resolve().parent.parent
PAGE = TESTS.parent / "docs" / "differences.md"
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split("|"))
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| what |"))
]
NO_TEST = "—"


def test_the_page_of_apis_is_up_to_date() -> None:
    assert api_page.PAGE.read_text(encoding="utf-8") == api_page.page(), (
        "run python -m tidegauge.model_tests.docs.api_page"
    )


@cache
def functions(path: Path) -> frozenset[str]:
    """The names of a module's functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:60])
def test_a_row_has_its_four_columns_and_the_test_that_it_names(row: tuple[str, ...]) -> None:
    assert len(row) == 4
    assert all(row)
    if row[3] != NO_TEST:
        named = re.fullmatch(r"`([\w/]+\.py)::(\w+)`", row[3])
        assert named is not None, row[3]
        assert named[2] in functions(TESTS / named[1])


def test_most_rows_are_held_by_a_test() -> None:
    assert len([row for row in ROWS if row[3] == NO_TEST]) < len(ROWS) / 10


def test_settings_that_do_nothing_are_those_that_are_named() -> None:
    of_logs = {field.name.replace("_", ".") for field in attrs.fields(LogConfig)}
    idle = TOPIC_CONFIGS.keys() - of_logs - {MIN_INSYNC_REPLICAS, UNCLEAN_LEADER_ELECTION_ENABLE}
    assert idle == {
        "preallocate",
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
        "remote.storage.enable",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "local.retention.bytes",
        "local.retention.ms",
    }
    text = PAGE.read_text(encoding="utf-8")
    for setting in idle:
        family = re.sub(r"^(remote\.log|local\.retention)\..*", r"\1.*", setting)
        assert f"`{family}`" in text
    for limit in ("leader.replication.throttled.rate", "follower.replication.throttled.rate"):
        assert f"`{limit}`" in text


def defaults_are_told(test: str, defaults: Mapping[str, Any]) -> None:
    """The row that this test holds gives Kafka's defaults of these settings, and then ours, first of all numbers."""
    assert defaults.keys() <= SERVER_CONFIGS.keys()
    (row,) = [row for row in ROWS if row[3].endswith(f"{test}`")]
    kafkas = {name: str(SERVER_CONFIGS[name].default) for name in defaults}
    for name, value in kafkas.items():
        assert f"`{name}` {value}" in row[1]
    assert [str(value) for value in defaults.values()] == re.findall(r"\d+", row[2])[: len(defaults)]


def test_an_embedded_cluster_has_these_defaults_of_its_own() -> None:
    defaults_are_told("test_an_embedded_cluster_has_these_defaults_of_its_own", DEFAULTS)


@pytest.mark.parametrize(("brokers", "replicas", "min_isr"), [(1, 1, 1), (2, 2, 2), (3, 3, 2), (5, 3, 2)])
def test_internal_topics_fit_an_embedded_cluster(brokers: int, replicas: int, min_isr: int) -> None:
    config = Cluster(brokers=brokers).options.config
    assert config.offsets_topic_replication_factor == config.transaction_state_log_replication_factor == replicas
    assert config.transaction_state_log_min_isr == min_isr


def test_a_running_cluster_has_these_defaults_besides() -> None:
    defaults_are_told("test_a_running_cluster_has_these_defaults_besides", IMPATIENT)


@pytest.mark.parametrize("name", ["authorizer.class.name", "replica.selector.class"])
def test_classes_are_kafkas_own(name: str) -> None:
    with pytest.raises(ValueError, match="it must be one of"):
        ServerConfig.from_properties({name: "org.example.Mine"})
