"""The published model of KIP-996: KRaft whose voters ask first whether they would be voted for.

A port of Jack Vanlightly's TLA+ specification (github.com/Vanlightly/kafka-tlaplus, `kraft/kip_996`), rule by rule and
under its names, so that this explorer can be held against TLC. It extends his model of KIP-853: see
`spec.published.kip853.machine`, also for what is not ported.

Theory of operation
-------------------
A voter that is not served any more does not raise its epoch at once, which would depose a leader that others follow.
It asks in its own epoch who would vote for it (pre-vote). Who follows a leader that has served it would not, nor would
a leader. With a majority the voter is a candidate in the next epoch; without one it follows whom it followed, or is
unattached. A vote is remembered while a server is unattached or asks. A voter that knows no leader asks any server
with a fetch, whose refusal names the leader.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import attrs

from tidegauge.spec.kernel.evolving import evolve
from tidegauge.spec.kernel.machine import Action, Invariant
from tidegauge.spec.published.kip853 import actions as former
from tidegauge.spec.published.kip853 import messages as former_messages
from tidegauge.spec.published.kip853.machine import (
    Kip853,
    acked_value_not_lost,
    leader_has_all_acked_values,
    never_two_leaders_in_same_epoch,
    no_illegal_state,
    no_log_divergence,
)
from tidegauge.spec.published.kip853.state import Fetching, Role, Server, State
from tidegauge.spec.published.kip996 import actions as protocol
from tidegauge.spec.published.kip996 import messages
from tidegauge.spec.published.kip996.rules import Kip996Rules
from tidegauge.spec.published.kraft.state import NOBODY


@attrs.frozen
class Kip996(Kip996Rules, Kip853):
    """KRaft with KIP-996; the fields of its rules are the constants of the TLA+ model."""

    action_types: ClassVar[tuple[type[Action], ...]] = (
        protocol.RestartWithState,
        former.StartNewServer,
        former.AcceptAddVoterRequest,
        former.AcceptRemoveVoterRequest,
        protocol.VoterFetchTimeout,
        protocol.VoterElectionTimeout,
        protocol.ResignedElectionTimeout,
        messages.HandleVoteRequest,
        messages.HandleVoteResponse,
        protocol.ConcludePreVote,
        protocol.BecomeLeader,
        former_messages.AcceptBeginQuorumRequest,
        protocol.CheckQuorumResign,
        protocol.HandleClientRequest,
        protocol.SendFetchRequest,
        former_messages.RejectFetchRequest,
        former_messages.DivergingFetchRequest,
        messages.AcceptFetchRequest,
        messages.HandleFetchResponse,
    )

    def _begun(self, number: int) -> Server:
        """A server of the first configuration, whose leader has served all."""
        return evolve(super()._begun(number), fetching=Fetching(has_succeeded=True))

    def _may_elect(self) -> bool:
        return super()._may_elect() and self.max_disruptions > 0

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return {
            "LogMatching": no_log_divergence,
            "LeaderCompleteness": leader_has_all_acked_values,
            "ElectionSafety": never_two_leaders_in_same_epoch,
            "Durability": acked_value_not_lost,
            "NoIllegalState": no_illegal_state,
            "ValidRolesAndStates": valid_roles_and_states,
        }


def valid_roles_and_states(state: State) -> bool:
    """An observer asks for no votes; who is unattached knows no leader; only who leads owes clients a response."""
    asks = (Role.PROSPECTIVE, Role.CANDIDATE)
    observers = (Role.LEADER, Role.FOLLOWER, Role.UNATTACHED, Role.RESIGNED)
    return all(
        (number in server.members or server.role in observers)
        and (server.role != Role.UNATTACHED or server.leader == NOBODY)
        and (server.role == Role.LEADER or not server.unacked)
        and (server.role in asks or not server.votes)
        for number, server in enumerate(state.servers)
    )
