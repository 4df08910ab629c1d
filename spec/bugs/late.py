"""Messages of processes that have died, where one check of who has sent them is missing."""

from __future__ import annotations

from typing import Final

import attrs

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.replication.extensions.late import LateMessages
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import Controller, Error, FetchRequest, Replica

MODEL: Final = Replication(
    brokers=2,
    max_records=1,
    min_insync_replicas=2,
    bounds=Bounds(ArriveLate=1, Crash=1),
    extensions=(LateMessages(),),
)


@attrs.frozen(slots=False)
class CountsEveryProcess(Replication):
    """A leader takes the fetch of a follower's former process for one of its present process."""

    def fetch_error(self, leader: Replica, broker: int, request: FetchRequest) -> Error:
        present = leader
        if leader.leader == broker and request.follower < self.brokers:
            known = evolve(leader.remote[request.follower], broker_epoch=request.broker_epoch)
            remote = (*leader.remote[: request.follower], known, *leader.remote[request.follower + 1 :])
            present = evolve(leader, remote=remote)
        return super().fetch_error(present, broker, request)


@attrs.frozen(slots=False)
class UnfencedByTheDead(Replication):
    """A controller takes the heartbeat of a broker's former process for one of its present process."""

    def heartbeat_error(self, controller: Controller, broker: int, broker_epoch: int) -> Error:
        return Error.OK


BUGS: Final = (
    Bug(
        name="counts_every_process",
        title="a dead process's fetch commits what the living one lacks",
        reference="KIP-903",
        mechanism=(
            "A follower fetches, dies with its unflushed tail, and joins the ISR without it. Then the fetch of its "
            "former process arrives, and the leader commits the tail."
        ),
        violates=("StrongIsr", "LeaderCandidateCompleteness", "WeakIsr"),
        buggy=CountsEveryProcess,
        model=MODEL,
    ),
    Bug(
        name="unfenced_by_the_dead",
        title="a dead process's heartbeat unfences the living one",
        reference="KIP-631",
        mechanism=(
            "A new process has registered and has yet to read the metadata. The late heartbeat of the former one says "
            "that it has."
        ),
        violates=("UnfencedHasCaughtUp",),
        buggy=UnfencedByTheDead,
        model=MODEL,
    ),
)
