"""`tidegauge record`: a history from a real cluster by a real client, and what stands in its way told in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tidegauge import running_cluster
from tidegauge.__main__ import run
from tidegauge.linearizability import files
from tidegauge.linearizability.anomaly import Name
from tidegauge.linearizability.check import Verdicts, check
from tidegauge.linearizability.history import Isolation, Kind, Outcome
from tidegauge.model_tests.harness.recording.clients import LIBRARIES

LOAD = ("--partitions", "2", "--rate", "50")
BRIEF = ("--seconds", "1", *LOAD)


@pytest.fixture(scope="module")
def bootstrap() -> Any:
    with running_cluster(brokers=1) as cluster:
        yield str(cluster.bootstrap_servers)


@pytest.mark.parametrize("client", LIBRARIES)
def test_what_a_library_sees_is_a_history_that_holds(
    bootstrap: str, client: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "history.parquet"
    words = ("record", "--bootstrap", bootstrap, "--client", client, "--out", str(out), "--json", *BRIEF)
    assert run(words) == 0, capsys.readouterr()
    told = json.loads(capsys.readouterr().out)
    assert told["unsettled"] == []
    operations = files.read(out)
    assert check(operations).valid
    assert told["operations"]["produce"]["ok"] == (operations.kind == Kind.PRODUCE).sum() > 10
    assert (operations.kind == Kind.SETTLED).sum() == 2


def recorded_transactions(bootstrap: str, client: str, out: Path) -> Verdicts:
    words = ("record", "--bootstrap", bootstrap, "--client", client, "--out", str(out), "--transactions", "1", *BRIEF)
    assert run(words) == 0
    return check(files.read(out))


@pytest.mark.parametrize(
    "client", [pytest.param(name, marks=[pytest.mark.deep] * (name != "confluent-kafka")) for name in LIBRARIES]
)
def test_transactions_are_recorded_and_checked(bootstrap: str, client: str, tmp_path: Path) -> None:
    out = tmp_path / "history.parquet"
    verdicts = recorded_transactions(bootstrap, client, out)
    assert verdicts.valid, verdicts.anomalies
    assert run(("check", str(out))) == 0
    operations = files.read(out)
    assert operations.transactional is not None
    for kind in (Kind.COMMIT, Kind.ABORT, Kind.COMMIT_OFFSETS):
        assert ((operations.kind == kind) & (operations.outcome == Outcome.OK)).any(), f"no {kind.name.lower()}"
    fetched = operations.isolation[operations.kind == Kind.FETCH]
    assert set(fetched.tolist()) == set(Isolation)
    assert (operations.kind == Kind.SETTLED).sum() == 2


def test_a_cluster_that_tells_of_no_abort_is_found_out(tmp_path: Path) -> None:
    """What clients are told to leave out is gone from every response."""
    out = tmp_path / "history.parquet"
    with (
        patch("tidegauge.impl.storage.log_reads.LogReads.aborted_transactions", lambda *_: []),
        running_cluster(brokers=1) as cluster,
    ):
        verdicts = recorded_transactions(str(cluster.bootstrap_servers), "confluent-kafka", out)
    assert Name.ABORTED_READ in {anomaly.name for anomaly in verdicts.anomalies}
    assert run(("check", str(out))) == 1


def recorded_group(bootstrap: str, client: str, out: Path, *words: str, seconds: int = 1) -> Verdicts:
    asked = ("record", "--bootstrap", bootstrap, "--client", client, "--out", str(out), "--groups", "2", *LOAD)
    assert run((*asked, "--seconds", str(seconds), *words)) == 0
    return check(files.read(out))


OTHER_MEMBERS = (("confluent-kafka", "classic"), ("confluent-kafka", "consumer"), ("aiokafka", "classic"))


@pytest.mark.parametrize(
    ("client", "protocol"),
    [("kafka-python", "classic"), *(pytest.param(*other, marks=pytest.mark.deep) for other in OTHER_MEMBERS)],
)
def test_members_of_a_group_are_recorded_and_checked(
    bootstrap: str, client: str, protocol: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "history.parquet"
    verdicts = recorded_group(bootstrap, client, out, "--group-protocol", protocol)
    assert verdicts.valid, verdicts.anomalies
    capsys.readouterr()
    assert run(("check", str(out), "--json")) == 0
    assert json.loads(capsys.readouterr().out)["checked"] == {"logs": 1, "transactions": 0, "groups": 1}
    operations = files.read(out)
    for kind in (Kind.ASSIGN, Kind.COMMIT_OFFSETS, Kind.READ_OFFSETS, Kind.DELIVER, Kind.RELEASE):
        assert ((operations.kind == kind) & (operations.outcome == Outcome.OK)).any(), f"no {kind.name.lower()}"
    assert (operations.kind == Kind.SETTLED).sum() == 4, "of the log, and of the group"
    assert operations.membership is not None
    has_generations = bool((operations.membership.generation >= 0).any())
    assert has_generations == (client == "kafka-python"), "it alone tells of them"


def test_a_coordinator_that_forgets_what_was_committed_is_found_out(tmp_path: Path) -> None:
    """By the first member that comes after a commit: on a slow machine there is none in one second."""
    found: set[Name] = set()
    with (
        patch("tidegauge.impl.coordinators.groups.coordinator.GroupCoordinator.fetch", lambda *_, **__: None),
        running_cluster(brokers=1) as cluster,
    ):
        for seconds in (1, 5, 25):
            out = tmp_path / f"{seconds}.parquet"
            verdicts = recorded_group(str(cluster.bootstrap_servers), "kafka-python", out, seconds=seconds)
            found = {anomaly.name for anomaly in verdicts.anomalies}
            if Name.DELIVERED_AFTER_COMMIT in found:
                break
    assert Name.DELIVERED_AFTER_COMMIT in found


@pytest.mark.parametrize("acks", ["1", "0"])
def test_weaker_acknowledgements_are_recorded_as_such(bootstrap: str, acks: str, tmp_path: Path) -> None:
    out = tmp_path / "history.parquet"
    assert run(("record", "--bootstrap", bootstrap, "--acks", acks, "--out", str(out), *BRIEF)) == 0
    operations = files.read(out)
    assert set(operations.acks[operations.kind == Kind.PRODUCE].tolist()) == {int(acks)}
    assert check(operations).valid


def test_the_topic_is_removed_unless_it_is_to_be_kept(bootstrap: str, tmp_path: Path) -> None:
    from confluent_kafka.admin import AdminClient

    words = ("record", "--bootstrap", bootstrap, "--out", str(tmp_path / "history.parquet"), *BRIEF)
    assert run((*words, "--topic", "goes")) == 0
    assert run((*words, "--topic", "stays", "--keep-topic")) == 0
    topics = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).topics
    assert "goes" not in topics
    assert "stays" in topics
    assert run((*words, "--topic", "stays")) == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--rate", "0"), "--rate 0.0: give more than 0"),
        (("--set", "linger.ms"), "--set linger.ms: give name=value"),
        (("--set", "lingering=1"), 'No such configuration property: "lingering"'),
        (("--acks", "1", "--client", "aiokafka"), "use acks=all"),
        (("--out", "history.json"), "name a .parquet file"),
        (("--transactions", "1", "--acks", "1"), "--acks 1 with --transactions"),
        (("--rate", "nan"), "--rate nan: give more than 0 and at most"),
        (("--seconds", "inf"), "--seconds inf: give more than 0 and at most"),
        (("--producers", "1000000"), "--producers 1000000: give more than 0 and at most 256"),
        (("--readers", "1000000"), "--readers 1000000: give more than 0 and at most 256"),
        (("--partitions", "1000000"), "--partitions 1000000: give more than 0 and at most 10000"),
        (("--in-flight", "1000000"), "--in-flight 1000000: give more than 0 and at most 10000"),
        (("--transactions", "-1"), "--transactions -1: give 0 or more"),
        (("--transactions", "1000000"), "--transactions 1000000: give 0 or more, and at most 256"),
        (("--groups", "1000000"), "--groups 1000000: give 0 or more, and at most 256"),
        (("--groups", "2", "--transactions", "1"), "--groups with --transactions: leave one of them out"),
        (
            ("--groups", "1", "--group-protocol", "consumer", "--client", "aiokafka"),
            "no members of the consumer protocol",
        ),
        (("--replication-factor", "7"), "INVALID_REPLICATION_FACTOR|eplication factor"),
    ],
)
def test_what_cannot_be_recorded_is_told(
    bootstrap: str, words: tuple[str, ...], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = () if "--out" in words else ("--out", str(tmp_path / "history.parquet"))
    assert run(("record", "--bootstrap", bootstrap, *out, *words)) == 2
    error = capsys.readouterr().err
    assert any(part in error for part in told.split("|")), error
    assert "bug in tidegauge" not in error
