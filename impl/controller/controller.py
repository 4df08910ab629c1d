"""The controller: the deterministic core that governs the cluster.

Theory of operation
-------------------
Everything that the cluster has agreed on is the result of replaying one log of records (KIP-500). The active controller
is the only one to append to it. Each request goes through three steps: look at the image, decide by the rules, write
the decision as one list of records. Brokers pull the log from their own offset and replay it in the same way; a broker
acts on nothing that it has not read there.

    membership     register, heartbeat, lapse       who is live, and which process of a broker counts
    elections      elect, with_leader, without      who leads, who may lead
    isr_changes    alter_partition                  what a leader may change: its ISR, conditionally
    topics         create_topic                     what there is, and on which brokers
    configs        alter_configs, replace_configs   settings of topics and brokers, and what follows from them
    client_quotas  alter_client_quota               how much of a broker a client may have
    acls           create_acls, delete_acls         who may do what
    scram          alter_scram_credentials          what proves who is who

A controller has a *controller epoch*, one more than any before it, written as the first record of its reign; a leader
that has heard from a newer controller ignores the older. Taking over is `activate`: replay the log, raise the epoch,
give every unfenced broker a full session, since nobody knows when it was last heard of.

The core has no clock (`now_ms` is handed in) and no randomness (placement gets its random numbers), and does no I/O but
to its log. `take_effects` says whom to tell what.
"""

from __future__ import annotations

from tidegauge.impl.controller.acls import Acls
from tidegauge.impl.controller.client_quotas import ClientQuotas
from tidegauge.impl.controller.configs import Configs
from tidegauge.impl.controller.producer_ids import ProducerIds
from tidegauge.impl.controller.scram import ScramCredentials
from tidegauge.impl.controller.state import DEFAULT_CONTROLLER_ID, ControllerConfig
from tidegauge.impl.controller.topics import Topics
from tidegauge.impl.metadata.log import MetadataLog
from tidegauge.impl.metadata.records import ControllerEpochRecord


class Controller(Topics, Configs, ClientQuotas, Acls, ScramCredentials, ProducerIds):
    """The active controller of a quorum of one."""

    @classmethod
    def activate(
        cls,
        log: MetadataLog,
        *,
        now_ms: int,
        node_id: int = DEFAULT_CONTROLLER_ID,
        config: ControllerConfig | None = None,
    ) -> Controller:
        """Take over: know all that earlier controllers decided, and be told from them by a higher epoch."""
        controller = cls(node_id, log, config or ControllerConfig())
        controller.image.replay(log.read(0))
        controller._write(ControllerEpochRecord(node_id, controller.image.controller_epoch + 1))
        controller._commit()
        deadline = now_ms + controller.config.broker_session_timeout_ms
        controller.sessions = {broker.broker_id: deadline for broker in controller.image.unfenced_brokers()}
        return controller
