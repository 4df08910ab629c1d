"""Simulated runs: a function of the seed, valid, converging, and behaviours of the specification."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache

import attrs
import pytest

from tidegauge.linearizability.check import Verdict, check
from tidegauge.linearizability.history import Kind
from tidegauge.model_tests.amounts import amount
from tidegauge.model_tests.bugs import BUGS
from tidegauge.model_tests.harness.simulation.options import (
    DAMAGES,
    ORDERS_WEIGHT,
    SINGLED_OUT,
    SINGLED_OUT_WEIGHT,
    Fault,
    Options,
    dense,
    draw,
    sparse,
    with_many_elections,
    with_one_damage,
    with_wrapping_sequences,
    without_idempotent_producers,
    without_operated,
)
from tidegauge.model_tests.harness.simulation.simulation import Simulated, reproduce, simulate
from tidegauge.model_tests.harness.simulation.sometimes import GOALS
from tidegauge.model_tests.harness.simulation.transacting_options import draw_transacting, transacting

SEEDS = range(amount(6, deep=24))


@cache
def drawn(seed: int) -> Simulated:
    """The run of a seed as campaigns draw it, for all tests that look at it."""
    return simulate(draw(seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_is_valid_converges_and_behaves_as_specified(seed: int) -> None:
    assert_holds(drawn(seed))


def as_it_was(options: Options) -> Options:
    """A seed that failed before campaigns had idempotent producers and removed brokers fails, or not, without them."""
    return without_operated(without_idempotent_producers(options))


def holds(options: Options) -> None:
    assert_holds(simulate(options))


def assert_holds(run: Simulated) -> None:
    assert run.holds, "\n".join((*run.failures, f"reproduce: {run.reproduce}"))
    verdicts = check(run.operations)
    assert verdicts.of(run.seed) is not Verdict.VIOLATED, f"{verdicts.anomalies}\nreproduce: {run.reproduce}"


@pytest.mark.parametrize(
    ("seed", "_what"),
    [
        (1111, "responses of a process that gave up for its disk arrive"),
        (1191, "a broker dies again before it has registered, with no log of the partition"),
        (3154, "a broker is paused before it has registered, with no log of the partition"),
        (1249, "a broker is paused while it opens a connection to a leader"),
    ],
)
def test_a_seed_that_has_failed_holds(seed: int, _what: str) -> None:
    holds(as_it_was(sparse(seed)))


@pytest.mark.parametrize(
    ("seed", "_what"),
    [
        (10, "a reassignment completes, and its leader, which is about to stop, leaves the ISR by the same decision"),
        (37, "a topic that has elected uncleanly and does not any more has no leader until its operator decides"),
        (123, "a broker stops cleanly without having learned its last epoch"),
        pytest.param(172, "a full disk does not take a checkpoint of high watermarks", marks=pytest.mark.deep),
    ],
)
def test_a_dense_seed_that_has_failed_holds(seed: int, _what: str) -> None:
    holds(as_it_was(draw(seed)))


def without_recreation(options: Options) -> Options:
    """A seed that failed before campaigns deleted topics."""
    return attrs.evolve(options, faults={fault: n for fault, n in options.faults.items() if fault != Fault.RECREATION})


@pytest.mark.parametrize(
    ("seed", "_what"),
    [
        pytest.param(
            303,
            "a process that has met damage registers, and its former session's end begins a leader epoch",
            marks=pytest.mark.deep,
        ),
        (319, "damage is reported though a later leader epoch has the replica out, which its broker has yet to read"),
        pytest.param(462, "a withdrawn replica is taken away, and its broker stops", marks=pytest.mark.deep),
        (467, "a replica that is lost for the controller is given up"),
        pytest.param(555, "a log is cut and its disk has no room for the rest of it", marks=pytest.mark.deep),
        pytest.param(
            139,
            "flushes fail behind appends, and a replica is not hosted for want of descriptors",
            marks=pytest.mark.deep,
        ),
        pytest.param(635, "a directory comes back twice without the log of a deleted topic", marks=pytest.mark.deep),
        pytest.param(628, "a follower's log is cut, and the flush of that fails", marks=pytest.mark.deep),
        pytest.param(638, "the response to a registration comes after that to a later one", marks=pytest.mark.deep),
        (844, "the high watermark of a replica is written down after it was withdrawn"),
        pytest.param(
            403,
            "a log that is opened again for want of descriptors has the high watermark that its process knew",
            marks=pytest.mark.deep,
        ),
        pytest.param(623, "a report of damage arrives after the replica was repaired", marks=pytest.mark.deep),
        pytest.param(
            580,
            "retention moves a log start, and the disk has no descriptors for the rest of it",
            marks=pytest.mark.deep,
        ),
        pytest.param(
            367,
            "a broker stops while a log waits for descriptors, and retention had moved its start",
            marks=pytest.mark.deep,
        ),
        pytest.param(536, "the same, and its high watermark", marks=pytest.mark.deep),
        pytest.param(369, "a log is opened again, and its producers were below its start", marks=pytest.mark.deep),
        (1288, "a log is found damaged as it is opened, and its broker is unfenced without it"),
        pytest.param(1222, "a proposal arrives after its process has registered again", marks=pytest.mark.deep),
        pytest.param(1104, "a request is lost on a connection that lasts", marks=pytest.mark.deep),
        pytest.param(1151, "a leader waits for room, and leads on", marks=pytest.mark.deep),
        pytest.param(1154, "damage is met before metadata are acted on", marks=pytest.mark.deep),
        pytest.param(1298, "a fenced broker reports damage, and nobody is in sync", marks=pytest.mark.deep),
        pytest.param(3626, "a deleted log is in a directory that has failed", marks=pytest.mark.deep),
        pytest.param(4040, "a crash takes the topic id of a log", marks=pytest.mark.deep),
        pytest.param(1289, "healing cuts short that a clock is wrong", marks=pytest.mark.deep),
    ],
)
def test_a_seed_with_everything_that_has_failed_holds(seed: int, _what: str) -> None:
    holds(draw(seed))


@pytest.mark.parametrize(
    ("options", "_what"),
    [
        (
            without_operated(draw(39)),
            "a topic comes to prefer unclean leaders, and then a reassignment is taken back and elects one",
        ),
        (draw(123), "a reassignment is taken back, and with it goes the last known leader"),
        pytest.param(draw(1037), "what lies below the start of a log is damaged", marks=pytest.mark.deep),
        (draw(1085), "a disk fails while a log starts over, and has not the epoch of what is gone"),
        pytest.param(
            without_recreation(draw(234)),
            "a disk fails while a log starts over, and has nothing of the new one",
            marks=pytest.mark.deep,
        ),
        pytest.param(
            draw(1049), "a repeat is refused for its time, and the first attempt was appended", marks=pytest.mark.deep
        ),
        (without_operated(sparse(46)), "a log is cut just after a batch with which sequences have begun at 0 again"),
    ],
    ids=["dense 39", "dense 123", "dense 1037", "dense 1085", "dense 234", "dense 1049", "sparse 46"],
)
def test_a_seed_with_idempotent_producers_that_has_failed_holds(options: Options, _what: str) -> None:
    holds(options)


def test_dense_runs_have_many_times_the_faults_of_sparse_ones() -> None:
    seeds = range(5)
    dense = [drawn(seed) for seed in seeds if Fault.CRASH in draw(seed).faults]
    few = [simulate(sparse(seed), validated=False) for seed in seeds if Fault.CRASH in sparse(seed).faults]
    crashes = [sum(run.faults.get(Fault.CRASH.value, 0) for run in runs) for runs in (dense, few)]
    assert crashes[0] > 8 * crashes[1] > 0, crashes


def test_a_registration_on_its_way_when_its_broker_is_paused_is_no_mismatch() -> None:
    run = simulate(as_it_was(sparse(2146)))
    assert run.holds, run.failures


def test_a_late_fetch_of_a_followers_former_process_is_refused_as_the_specification_says() -> None:
    run = simulate(as_it_was(sparse(100_119)))
    assert run.holds, run.failures


def told(run: Simulated) -> str:
    return f"{run.digest} {run.operations.call.tolist()} {run.faults}\n"


def test_two_processes_with_different_hash_seeds_give_one_run() -> None:
    program = (
        "from tidegauge.model_tests.harness.simulation.options import draw\n"
        "from tidegauge.model_tests.harness.simulation.simulation import simulate\n"
        "run = simulate(draw(4), validated=False)\n"
        "print(run.digest, run.operations.call.tolist(), run.faults)\n"
    )
    another = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {**os.environ, "PYTHONHASHSEED": another}
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout == told(drawn(4))


def test_options_are_drawn_from_the_seed_with_some_faults_left_out() -> None:
    drawn = [draw(seed) for seed in range(200)]
    assert drawn == [draw(seed) for seed in range(200)]
    for fault in Fault:
        assert 0 < sum(fault in options.faults for options in drawn) < 200, f"{fault} is in some runs, not in all"
    assert all(options.described()["seed"] == str(options.seed) for options in drawn)


RARE = {
    "a sync that had lied cost records": 9,
    "a log was gone when its broker started": 31,
    "a broker met damage while it ran": 10,
    "a batch in which sequences wrap was appended": 28,
    "an operator had a leader elected that lacks records": 21,
}
"""What is rare -> a seed that sees it."""


@pytest.mark.parametrize("goal", RARE)
def test_what_is_rare_is_seen(goal: str) -> None:
    assert simulate(draw(RARE[goal]), validated=False).sometimes[goal]


def test_a_part_of_all_seeds_has_room_for_what_is_rare() -> None:
    """One goal that is seen in fewer fails one campaign of six of 60 seeds on correct code."""
    drawn = [draw(seed) for seed in range(1000)]
    for fault in set(SINGLED_OUT):
        assert sum(one.faults.get(fault) == SINGLED_OUT_WEIGHT for one in drawn) > 0.03 * len(drawn), fault
    damaged = [with_one_damage(dense(sparse(one.seed))) for one in drawn]
    wrapping = [with_wrapping_sequences(one) for one in damaged]
    with_room = sum(one == wraps != plain for one, wraps, plain in zip(drawn, wrapping, damaged, strict=True))
    assert with_room > 0.1 * len(drawn), "sequences that wrap"
    assert sum(one.faults.get(Fault.UNCLEAN) == ORDERS_WEIGHT for one in drawn) > 0.1 * len(drawn), "orders"


def test_an_operator_orders_what_the_topic_does_not_do_by_itself() -> None:
    ordered = [one for one in map(draw, range(200)) if one.faults.get(Fault.UNCLEAN) == ORDERS_WEIGHT]
    assert not any(one.unclean_leader_election or one.changes_unclean or one.damaging for one in ordered)


def test_what_is_rare_takes_room_from_no_run_with_a_bug_and_none_with_transactions() -> None:
    for seed in range(200):
        assert draw(seed, bug="kafka_1211") == dense(sparse(seed, bug="kafka_1211"))
        assert draw_transacting(seed) == transacting(dense(sparse(seed)))
        assert not draw_transacting(seed).faults.keys() & set(DAMAGES)


def test_a_run_without_faults_has_no_unknown_outcome() -> None:
    run = simulate(Options(seed=5, duration=2.0))
    assert run.holds, run.failures
    assert not run.faults
    assert all(row.returned is not None for row in run.operations if row.kind in (Kind.PRODUCE, Kind.FETCH))
    assert run.sometimes["a produce that waits for all was acknowledged"] > 10
    assert run.sometimes["a produce has an unknown outcome"] == 0


def test_acknowledged_records_are_lost_in_unclean_elections_and_declared() -> None:
    """Everything that clients lost is excused by the declaration, and by nothing else."""
    may_lose = (
        options for options in map(draw, range(200)) if Fault.UNCLEAN in options.faults and options.acks == (-1,)
    )
    run = next(run for run in (simulate(options, validated=False) for options in may_lose) if run.declared_lost)
    assert check(run.operations).of(run.seed) is Verdict.VALID
    rows = [row for row in run.operations if row.kind is not Kind.ELECTION]
    undeclared = type(run.operations).of(rows)
    assert check(undeclared).of(run.seed) is Verdict.VIOLATED, "without the declaration it is a loss"


def test_goals_are_counted_in_every_run() -> None:
    assert set(simulate(Options(seed=1, duration=1.0), validated=False).sometimes) == set(GOALS)


@pytest.mark.parametrize("bug", ["kafka_14139", "last_replica_standing", "kafka_18991", "minimal_isr"])
def test_a_bug_that_is_switched_on_shows_in_the_trace(bug: str) -> None:
    runs = (simulate(draw(seed, bug=bug)) for seed in range(10))
    failing = next((run for run in runs if not run.holds), None)
    assert failing is not None, f"{bug} shows in none of ten seeds"
    assert failing.reproduce == f"tidegauge simulate --seed {failing.seed} --bug {bug}"


@pytest.mark.deep
@pytest.mark.parametrize("bug", BUGS)
def test_every_bug_of_replication_shows_in_the_trace_of_one_of_200_seeds(bug: str) -> None:
    assert any(not simulate(draw(seed, bug=bug)).holds for seed in range(1, 201)), f"{bug} shows in none of 200 seeds"


def test_the_command_that_reproduces_a_run_names_seed_and_bug() -> None:
    assert reproduce(draw(7)) == "tidegauge simulate --seed 7"


@pytest.mark.deep
def test_many_more_seeds() -> None:
    for seed in range(1_000, 1_500):
        test_a_seed_is_valid_converges_and_behaves_as_specified(seed)


@pytest.mark.parametrize("seed", range(amount(1, deep=3)))
def test_many_elections_lose_nothing(seed: int) -> None:
    run = simulate(with_many_elections(draw(seed)))
    assert run.holds, run.failures
    assert check(run.operations).valid
