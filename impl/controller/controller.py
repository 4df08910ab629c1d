"""The controller: the deterministic core that decides for the cluster.

Theory of operation
-------------------
The cluster's metadata is the result of replaying one log of records, the metadata log (KIP-500). One node at a time may
append to it: the active controller. Each request takes four steps.

    propose   a collaborator below looks at the image and decides by its rules: a `Proposal`, which changes nothing
    commit    the shell appends the proposal's records to the log as one, and waits until they are committed
    apply     `apply` replays the records into the image, and says which effects follow
    respond   the shell sends the proposal's response

Decisions are made one at a time, each on the image that the one before has left: no decision is made on records that
are not committed. If the log refuses the records, nothing has happened. If the controller crashes between commit and
apply, its successor replays the log to the same image.

    members        register, heartbeat, fence       which brokers are live, and which process of a broker counts
    isr_changes    alter                            the ISR that a leader proposes, conditionally
    elections      elect_preferred, elect_uncleanly
    reassignments  reassign, cancel                 partitions that move to other brokers
    directories    assign, mark_offline             where replicas are on their brokers
    topics         create, grow, delete             topics, and on which brokers they are
    configs        alter, replace                   settings of topics and brokers, and what follows from them
    client_quotas, acls, scram_credentials, producer_ids, features

How partitions change is in classes of rules (`ElectionRules`, `ReplicaListRules`, `IsrRules`, `RegistrationRules`,
`ConfigRules`). A subclass of `Controller` names other ones, to see what one wrong rule does.

A controller has a *controller epoch*, which it writes as its first record. It is the leader epoch of the metadata log,
one higher with each new leader; a broker that has seen a higher epoch ignores a lower one. A node takes over
(`take_over`) when the log elects it. It has replayed the log by then, and gives every unfenced broker a full session,
since sessions are not in the log. Sessions are durations: every `now_ms` here is a reading of `Clock.steady_ms`.

The core has no clock (`now_ms` is an argument) and no randomness (placement gets its random numbers), and does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from tidegauge.impl.controller.acls import Acls
from tidegauge.impl.controller.client_quotas import ClientQuotas
from tidegauge.impl.controller.config import ControllerConfig
from tidegauge.impl.controller.configs import ConfigRules, Configs
from tidegauge.impl.controller.decision import ControllerEffect, Decision, MetadataAppended, Proposal
from tidegauge.impl.controller.directories import Directories
from tidegauge.impl.controller.elections import ElectionRules
from tidegauge.impl.controller.features import Features
from tidegauge.impl.controller.isr_changes import IsrChanges, IsrRules
from tidegauge.impl.controller.membership import Membership, RegistrationRules
from tidegauge.impl.controller.producer_ids import ProducerIds
from tidegauge.impl.controller.reassignments import Reassignments
from tidegauge.impl.controller.replica_lists import ReplicaListRules
from tidegauge.impl.controller.requested_elections import RequestedElections
from tidegauge.impl.controller.scram_credentials import ScramCredentials
from tidegauge.impl.controller.topics import Topics
from tidegauge.impl.metadata.image import ClusterImage, ControllerRegistration
from tidegauge.impl.metadata.records import ControllerEpochRecord, MetadataRecord, RegisterControllerRecord


class Controller:
    """The image, the sessions, and the collaborators that decide on them."""

    election_rules: ClassVar[type[ElectionRules]] = ElectionRules
    replica_list_rules: ClassVar[type[ReplicaListRules]] = ReplicaListRules
    isr_rules: ClassVar[type[IsrRules]] = IsrRules
    registration_rules: ClassVar[type[RegistrationRules]] = RegistrationRules
    config_rules: ClassVar[type[ConfigRules]] = ConfigRules

    def __init__(self, node_id: int, config: ControllerConfig, image: ClusterImage | None = None) -> None:
        self.node_id = node_id
        self.config = config
        self.image = ClusterImage() if image is None else image
        """What the committed records say; one object for the controller's life."""
        self.sessions: dict[int, int] = {}
        """Broker id -> when its session expires, in ms of a clock that never steps; of unfenced brokers only."""
        image = self.image
        elections = self.election_rules(config)
        replica_lists = self.replica_list_rules(elections)
        self.directories = Directories(image, elections)
        registrations = self.registration_rules(elections, replica_lists)
        self.members = Membership(image, registrations, self.directories, config)
        self.isr_changes = IsrChanges(image, self.isr_rules(elections, replica_lists))
        self.elections = RequestedElections(image, elections)
        self.reassignments = Reassignments(image, replica_lists)
        self.topics = Topics(image, elections)
        self.configs = Configs(image, self.config_rules(elections), config)
        self.client_quotas = ClientQuotas(image)
        self.acls = Acls(image)
        self.scram_credentials = ScramCredentials(image)
        self.producer_ids = ProducerIds(image)
        self.features = Features(image)

    @property
    def controller_epoch(self) -> int:
        return self.image.controller_epoch

    def take_over(self, controller_epoch: int, now_ms: int, endpoint: tuple[str, int] | None = None) -> Proposal[None]:
        """Become the active controller: a higher epoch, and a full session for every unfenced broker.

        `endpoint` is the host and port where brokers reach this node; it is written when it is news. So is what no
        broker's file may say (`Configs.cluster_wide`).
        """
        decision = Decision(self.image)
        decision.write(ControllerEpochRecord(self.node_id, controller_epoch))
        for record in self.configs.cluster_wide():
            decision.write(record)
        if endpoint is not None:
            registration = ControllerRegistration(self.node_id, *endpoint)
            if self.image.controllers.get(self.node_id) != registration:
                decision.write(RegisterControllerRecord(self.node_id, *endpoint))
        deadline = now_ms + self.config.broker_session_timeout_ms
        return decision.propose(None, {broker.broker_id: deadline for broker in self.image.unfenced_brokers()})

    def resign(self) -> None:
        """Be the active controller no longer: sessions are kept by the next one."""
        self.sessions.clear()

    def replay(self, records: Iterable[MetadataRecord]) -> None:
        """Apply committed records that another controller wrote."""
        self.image.replay(records)

    def apply(self, proposal: Proposal[Any]) -> list[ControllerEffect]:
        """Apply a proposal whose records are committed; returns its effects, in order."""
        assert proposal.base_offset == self.image.offset, "a decision is applied to the image on which it was made"
        if proposal.sessions:
            self.sessions.update(proposal.sessions)
        if not proposal.records:
            return []
        brokers_change = proposal.image.brokers is not self.image.brokers
        self.image.adopt(proposal.image)
        if brokers_change:
            for broker_id in [known for known in self.sessions if not self.image.is_unfenced(known)]:
                del self.sessions[broker_id]
        return [*proposal.elections, MetadataAppended(self.image.offset)]

    def ahead(self) -> Controller:
        """One that decides by the same rules on a draft of the image, for a group of decisions that is committed as
        one: each is made on what those before it in the group will have left.

        Void when this image changes.
        """
        ahead = type(self)(self.node_id, self.config, self.image.draft())
        ahead.sessions = self.sessions
        return ahead

    def expect(self, proposal: Proposal[Any]) -> None:
        """Go on, in a controller that is `ahead`, as if the proposal that it has made were committed."""
        assert proposal.base_offset == self.image.offset, "a decision follows the one before it in its group"
        self.image.replay(proposal.records)

    def rebased(self, proposal: Proposal[Any]) -> Proposal[Any]:
        """A proposal that was made `ahead`, on this image, which has come to where the proposal was made."""
        draft = self.image.draft()
        draft.replay(proposal.records)
        return proposal._replace(image=draft)

    @property
    def next_deadline_ms(self) -> int | None:
        """When the next session expires; None while no broker has a session."""
        return min(self.sessions.values(), default=None)

    def expired_sessions(self, now_ms: int) -> list[int]:
        """The brokers whose sessions have expired, which are to be fenced."""
        return [broker_id for broker_id, deadline in sorted(self.sessions.items()) if deadline <= now_ms]
