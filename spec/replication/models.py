"""The models that are explored: the machines of this room with constants small enough to visit every state.

No single model has every perturbation at once; each turns some on, so that it is finished in seconds and that together
they cover every action. `QUICK` is a tenth of the work.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.model import Model
from tidegauge.spec.replication.composed import everything
from tidegauge.spec.replication.extensions.directories import Directories
from tidegauge.spec.replication.extensions.reassignment import Reassignment
from tidegauge.spec.replication.extensions.retention import Retention
from tidegauge.spec.replication.extensions.settings import Settings
from tidegauge.spec.replication.extensions.shutdown import ControlledShutdown
from tidegauge.spec.replication.machine import Replication
from tidegauge.spec.replication.state import Acks

_ALL: tuple[Model[Replication], ...] = (
    Model(
        "isr",
        Replication(brokers=2, max_records=2, bounds=Bounds(ShrinkIsr=1, ExpireSession=1)),
        "an ISR that shrinks and grows while the leader changes; logs that part and are mended",
    ),
    Model(
        "elections",
        Replication(brokers=3, max_records=1, bounds=Bounds(ExpireSession=1)),
        "three replicas and an election: whom the new leader must wait for",
    ),
    Model(
        "shrink",
        Replication(brokers=3, max_records=1, bounds=Bounds(ShrinkIsr=1)),
        "three replicas, of which one or two fall out of the ISR and come back",
    ),
    Model(
        "preferred",
        Replication(brokers=2, max_records=1, bounds=Bounds(ShrinkIsr=1, ExpireSession=1, PreferredElection=1)),
        "leadership that goes to and fro",
    ),
    Model(
        "expire",
        Replication(brokers=2, max_records=1, bounds=Bounds(ShrinkIsr=1, ExpireSession=1)),
        "a session that expires while the ISR changes",
    ),
    Model(
        "crash",
        Replication(brokers=2, max_records=1, bounds=Bounds(Crash=1)),
        "an unflushed tail that is lost, and the new incarnation's way back",
    ),
    Model(
        "crash-and-shrink",
        Replication(brokers=2, max_records=1, bounds=Bounds(ShrinkIsr=1, Crash=1)),
        "a crash while the ISR changes (KIP-903)",
    ),
    Model(
        "unclean",
        Replication(
            brokers=2,
            max_records=2,
            min_insync_replicas=1,
            unclean_leader_election=True,
            bounds=Bounds(ExpireSession=1),
        ),
        "a topic that prefers availability",
    ),
    Model(
        "unclean-by-hand",
        Replication(brokers=2, max_records=1, bounds=Bounds(ShrinkIsr=1, ExpireSession=1, UncleanElection=1)),
        "an operator who accepts loss: what goes is what was declared",
    ),
    Model(
        "network",
        Replication(
            brokers=2,
            max_records=1,
            long_polls=True,
            bounds=Bounds(ShrinkIsr=1, Disconnect=1, DuplicateFetch=1, Pause=1),
        ),
        "duplicates, broken connections, long polls and pauses",
    ),
    Model(
        "controller",
        Replication(brokers=2, max_records=1, bounds=Bounds(ShrinkIsr=1, ControllerFailover=1)),
        "a new controller while an ISR change is under way",
    ),
    Model(
        "delayed-metadata",
        Replication(brokers=2, max_records=1, delayed_metadata=True, bounds=Bounds(ShrinkIsr=1, ExpireSession=1)),
        "brokers that act on what the controller said before it changed its mind",
    ),
    Model(
        "acks",
        Replication(brokers=2, max_records=2, min_insync_replicas=2, acks=tuple(Acks), bounds=Bounds(ShrinkIsr=1)),
        "acks 0, 1 and all beside each other, with an ISR that gets too small",
    ),
    Model(
        "reassignment",
        Replication(
            extensions=(Reassignment((0, 1), ((1, 2),)),), brokers=3, max_records=1, bounds=Bounds(StartReassignment=1)
        ),
        "a partition that moves from two brokers to two others, or changes its mind on the way",
    ),
    Model(
        "reassignment-crash",
        Replication(
            extensions=(Reassignment((0,), ((1,),)),),
            brokers=2,
            max_records=1,
            bounds=Bounds(StartReassignment=1, Crash=1),
        ),
        "a move during which a broker dies and comes back with what it had",
    ),
    Model(
        "reassignment-back",
        Replication(
            extensions=(Reassignment((0,), ((1,), (0,))),), brokers=2, max_records=1, bounds=Bounds(StartReassignment=2)
        ),
        "a replica that is deleted and added again: what it once had counts no more",
    ),
    Model(
        "controlled-shutdown",
        Replication(
            extensions=(ControlledShutdown(),), brokers=2, max_records=1, bounds=Bounds(ShrinkIsr=1, BeginShutdown=1)
        ),
        "a broker that hands over and leaves while the ISR changes, and its return",
    ),
    Model(
        "retention",
        Replication(
            extensions=(Retention(),), brokers=2, max_records=2, bounds=Bounds(ExpireSession=1, DeleteRecords=1)
        ),
        "records deleted before and after an election; followers that are out of range and start over",
    ),
    Model(
        "retention-shrink",
        Replication(extensions=(Retention(),), brokers=2, max_records=2, bounds=Bounds(ShrinkIsr=1, DeleteRecords=1)),
        "records deleted that a follower outside the ISR has never had",
    ),
    Model(
        "retention-crash",
        Replication(extensions=(Retention(),), brokers=2, max_records=1, bounds=Bounds(Crash=1, DeleteRecords=1)),
        "what a broker knows of its log start after a crash",
    ),
    Model(
        "retention-unclean",
        Replication(
            extensions=(Retention(),),
            brokers=2,
            max_records=1,
            unclean_leader_election=True,
            bounds=Bounds(ExpireSession=1, DeleteRecords=1),
        ),
        "a leader that lacks what others have already deleted",
    ),
    Model(
        "directories",
        Replication(
            extensions=(ControlledShutdown(), Directories()),
            brokers=2,
            max_records=1,
            bounds=Bounds(ShrinkIsr=1, FailDirectory=1),
        ),
        "a broker that lives on without its replica while the ISR changes",
    ),
    Model(
        "settings",
        Replication(
            extensions=(Settings(unclean_values=(False,)),),
            brokers=2,
            max_records=1,
            min_insync_replicas=2,
            bounds=Bounds(ExpireSession=1, ChangeSettings=1),
        ),
        "min.insync.replicas that is lowered or raised while replicas are eligible",
    ),
    Model(
        "settings-unclean",
        Replication(
            extensions=(Settings(min_insync_values=(1,)),),
            brokers=2,
            max_records=1,
            bounds=Bounds(ExpireSession=1, ChangeSettings=1),
        ),
        "a topic that comes to prefer availability, or ceases to",
    ),
    Model(
        "moving-and-deleting",
        Replication(
            extensions=everything((0,), ((1,),)),
            brokers=2,
            max_records=1,
            bounds=Bounds(StartReassignment=1, DeleteRecords=1),
        ),
        "a replica that is added where records are gone already",
    ),
    Model(
        "moving-and-failing",
        Replication(
            extensions=everything((0,), ((1,),)),
            brokers=2,
            max_records=1,
            bounds=Bounds(StartReassignment=1, FailDirectory=1),
        ),
        "a move from a broker, or to one, whose directory fails",
    ),
)

MODELS: Mapping[str, Model[Replication]] = {model.name: model for model in _ALL}

QUICK = ("crash", "unclean", "network", "controller")
"""A few seconds, most of the actions."""
