"""The models of idempotent producing that are explored to their end; each turns some perturbations on."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.spec.idempotence.machine import Idempotence
from tidegauge.spec.kernel.bounds import Bounds
from tidegauge.spec.kernel.model import Model

_ALL = (
    Model(
        "idempotence-retries",
        Idempotence(
            brokers=1, max_in_flight=3, batches_retained=3, bounds=Bounds(LoseConnection=1, DuplicateProduce=1)
        ),
        "three batches in flight, lost responses, requests that overtake each other and arrive twice",
    ),
    Model(
        "idempotence-leader-change",
        Idempotence(max_records=3, batches_retained=2, bounds=Bounds(LoseConnection=1, Elect=1)),
        "a new leader that remembers what it has replicated; a tail that is cut",
    ),
    Model(
        "idempotence-rebuild",
        Idempotence(
            max_records=2,
            max_attempts=2,
            batches_retained=2,
            segments=True,
            bounds=Bounds(LoseConnection=1, Crash=1),
        ),
        "memory from snapshots and the log, after a crash that took a tail along",
    ),
    Model(
        "idempotence-retention",
        Idempotence(
            max_records=2,
            max_attempts=2,
            batches_retained=2,
            segments=True,
            reordering=False,
            bounds=Bounds(Crash=1, DeleteRecords=1),
        ),
        "records that are gone, of a producer that goes on",
    ),
    Model(
        "idempotence-expiry",
        Idempotence(
            max_records=4,
            batches_retained=2,
            reordering=False,
            bounds=Bounds(LoseConnection=1, Expire=1),
        ),
        "a producer that was idle for too long, forgotten by one replica and not by the other",
    ),
    Model(
        "idempotence-overtaken",
        Idempotence(max_records=3, max_attempts=2, batches_retained=2, bounds=Bounds(Elect=1, Expire=1)),
        "a batch that a later one has overtaken to a leader that had forgotten their producer (KIP-360)",
    ),
    Model(
        "idempotence-epochs",
        Idempotence(max_records=3, batches_retained=2, max_attempts=2, bounds=Bounds(GiveUp=1, Elect=1)),
        "a session that is given up, and its late requests (KIP-360)",
    ),
    Model(
        "idempotence-wrap",
        Idempotence(
            brokers=1,
            max_records=9,
            batch_sizes=(2, 1),
            batches_retained=2,
            sequences=5,
            max_attempts=2,
            reordering=False,
            bounds=Bounds(LoseConnection=1),
        ),
        "sequence numbers that wrap, within batches and between them",
    ),
    Model(
        "idempotence-two-producers",
        Idempotence(producers=2, brokers=1, max_records=2, batches_retained=2, bounds=Bounds(LoseConnection=1)),
        "two producers, of which neither is mistaken for the other",
    ),
    Model(
        "idempotence-without-sequences",
        Idempotence(max_records=3, max_in_flight=1, idempotent=False, bounds=Bounds(LoseConnection=1, Elect=1)),
        "one request in flight and no sequences: repeats are doubled, the order holds",
    ),
)

IDEMPOTENCE_MODELS: Mapping[str, Model[Idempotence]] = {model.name: model for model in _ALL}

QUICK_IDEMPOTENCE = tuple(
    f"idempotence-{name}" for name in ("expiry", "overtaken", "epochs", "wrap", "without-sequences")
)
"""Three seconds."""
MEDIUM_IDEMPOTENCE = tuple(f"idempotence-{name}" for name in ("leader-change", "rebuild", "retention"))
"""Twenty seconds."""
