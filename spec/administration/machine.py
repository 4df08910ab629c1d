"""Administration: topics come, grow, move and go, their settings change, and the controller says who may do what.

Theory of operation
-------------------
The other machines have one partition, which is there from the start. This one has the metadata, and no record:
a controller that takes requests one at a time, and the errors with which it refuses. What makes that more than a table:

* `min.insync.replicas` and `unclean.leader.election.enable` stand with a topic or with all brokers, and the controller
  decides by them. A change of either is one decision with what follows for every partition that it concerns.
* A topic that is being reassigned does not grow, but can be deleted; what comes under its name later is another topic.
* Brokers are fenced meanwhile: who is in sync and who is eligible changes under a reassignment, which may then not be
  cancelled, and new partitions begin with the live replicas alone. New processes register, which have perhaps lost
  something; and an operator removes a broker, whose id stays in replica lists but may be written in no new one.
* Operators ask for elections: of the preferred leader where it is in sync, of any live replica where nobody leads.
* What is only checked (`validate_only`) gets the same response, and changes nothing.

How a replica list is chosen is no part of it: a request names the brokers, or it says how many, and any live ones do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from tidegauge.spec.administration import altering, brokers, properties, replicas, topics
from tidegauge.spec.administration.rules import AdministrationRules
from tidegauge.spec.administration.settings import MIN_INSYNC
from tidegauge.spec.administration.state import State
from tidegauge.spec.kernel.guarded import EnumeratedAction
from tidegauge.spec.kernel.machine import Invariant, StepInvariant, check_processes


@attrs.frozen
class Administration(AdministrationRules):
    """The machine; the fields of its rules are the constants of the model."""

    action_base = EnumeratedAction
    action_types = (
        topics.CreateTopic,
        topics.CheckTopic,
        topics.DeleteTopic,
        topics.Grow,
        replicas.Reassign,
        replicas.CancelReassignment,
        replicas.JoinIsr,
        replicas.ElectPreferred,
        replicas.ElectUncleanly,
        altering.AlterSettings,
        altering.ReplaceSettings,
        altering.CheckSettings,
        brokers.AllocateBlock,
        brokers.Fence,
        brokers.Unfence,
        brokers.Restart,
        brokers.Unregister,
        brokers.Register,
    )

    def __attrs_post_init__(self) -> None:
        check_processes("brokers", self.brokers)
        self.bounds.check(self.name, self.perturbations)

    def initial(self) -> Iterable[State]:
        return (
            State(
                topics=(None,) * self.names,
                is_registered=(True,) * self.brokers,
                is_live=(True,) * self.brokers,
                of_all_brokers=((MIN_INSYNC, str(self.min_insync)),),
                blocks=self.blocks,
            ),
        )

    @property
    def invariants(self) -> Mapping[str, Invariant[State]]:
        return properties.invariants()

    @property
    def step_invariants(self) -> Mapping[str, StepInvariant[State]]:
        return properties.step_invariants()

    @property
    def converges(self) -> Mapping[str, Invariant[State]]:
        return properties.converging()

    @property
    def sometimes(self) -> Mapping[str, Invariant[State]]:
        return properties.goals(self)
