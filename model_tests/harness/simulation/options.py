"""What a simulated run is made of, drawn from its seed and printed before it begins.

Options are drawn by *swarm* (Groce et al., ISSTA 2012): in each run some faults are off altogether, so that the others
get room; a run in which everything goes wrong at once mostly shows an unavailable cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from random import Random

import attrs

from tidegauge.impl.coordinators.transactions.metadata import MAX_EPOCH
from tidegauge.spec.bugs.idempotence import IDEMPOTENCE_BUGS


class Fault(Enum):
    """What the injector may do to a cluster."""

    CRASH = "crash"
    PAUSE = "pause"
    ISOLATE = "isolate"
    ONE_WAY = "one-way partition"
    SPLIT = "partition"
    RESET = "reset connections"
    EXPIRY = "session expiry"
    PREFERRED = "preferred election"
    UNCLEAN = "unclean election"
    CONTROLLER = "controller restart"
    FULL_DISK = "full disk"
    FAILED_SYNC = "failed sync"
    SHUTDOWN = "controlled shutdown"
    GROWTH = "partition growth"
    REASSIGNMENT = "reassignment"
    CANCELLATION = "cancelled reassignment"
    DELETION = "deletion of records"
    SETTINGS = "change of settings"
    FAILED_DISK = "failed disk"
    CLOCK = "clock jump"
    DAMAGE = "damaged log"
    ROT = "bit rot"
    MET_ROT = "bit rot that is met"
    LYING_SYNC = "lying sync"
    POWER_CUT = "lying sync and power cut"
    LOST_LOG = "removed log"
    SLOW_SYNC = "delayed syncs"
    UNREGISTERING = "unregistered broker"
    RECREATION = "topic deleted and created again"
    FAILED_FLUSH = "flushes that fail behind appends"


class Losses(Enum):
    """What a crash takes of what was written and not synced."""

    NONE = "none"
    SPARED = "what others have"
    """Nothing where no other broker that is up has, in sync, what is committed."""
    ANY = "any"


OFTEN = (0, 0, 1, 1, 3)
"""Weights of a fault; two runs in five are without it."""

DISK_FAULTS = (Fault.FULL_DISK, Fault.FAILED_SYNC, Fault.FAILED_DISK)
CHANGES = (
    *(Fault.SHUTDOWN, Fault.GROWTH, Fault.REASSIGNMENT, Fault.CANCELLATION),
    *(Fault.DELETION, Fault.SETTINGS, Fault.CLOCK),
)
OPERATED = (Fault.UNREGISTERING, Fault.RECREATION)
"""What operators do by which a cluster may lose what it was given to keep."""
DAMAGED = 0
"""The broker whose disk damages what it has, if one does."""
DRAWN_DAMAGES: tuple[Fault, ...] = (Fault.DAMAGE, Fault.ROT, Fault.LYING_SYNC, Fault.MET_ROT)
DAMAGES: tuple[Fault, ...] = (*DRAWN_DAMAGES, Fault.POWER_CUT, Fault.LOST_LOG)
"""What that disk does. A run that has it elects nobody uncleanly and has two good copies of what is committed."""
OF_DAMAGE: tuple[Fault, ...] = (*DRAWN_DAMAGES, Fault.SLOW_SYNC)
SINGLED_OUT: tuple[Fault, ...] = (*3 * (Fault.POWER_CUT,), *2 * (Fault.LOST_LOG,), Fault.MET_ROT)
"""What that disk does, and nothing else, in some runs of a campaign: in others it seldom has room for these."""
SINGLED_OUT_SHARE = 0.24
SINGLED_OUT_WEIGHT = 24
"""As much as half of all faults."""
CUTS: tuple[Fault, ...] = (Fault.ISOLATE, Fault.ONE_WAY, Fault.SPLIT)
ORDERS_SHARE = 0.35
"""Of the runs whose disks damage nothing, and in which sequences do not wrap."""
ORDERS_WEIGHT = 24
WRAPPING_SHARE = 0.2
"""Of the runs with idempotent producers: sequences wrap, which takes an epoch that lasts."""
SELDOM = (0, 0, 0, 1)
"""Weights of a disk's faults, each of which costs a broker that has no other disk."""

CONFIG: Mapping[str, int] = {
    "broker.session.timeout.ms": 1_500,
    "broker.heartbeat.interval.ms": 300,
    "replica.lag.time.max.ms": 1_200,
    "replica.fetch.wait.max.ms": 250,
    "replica.fetch.backoff.ms": 100,
    "replica.socket.timeout.ms": 800,
    "retry.backoff.ms": 100,
    "controlled.shutdown.retry.backoff.ms": 200,
    "metadata.fetch.wait.max.ms": 400,
    "replica.high.watermark.checkpoint.interval.ms": 500,
    "log.retention.check.interval.ms": 400,
}
"""Kafka's settings on a smaller scale of time, so that a few seconds see what otherwise takes minutes."""
DENSE_CONFIG: Mapping[str, int] = {
    "broker.session.timeout.ms": 400,
    "broker.heartbeat.interval.ms": 120,
    "replica.lag.time.max.ms": 250,
    "replica.fetch.wait.max.ms": 100,
    "replica.fetch.backoff.ms": 30,
    "replica.socket.timeout.ms": 250,
    "retry.backoff.ms": 30,
    "controlled.shutdown.retry.backoff.ms": 60,
    "metadata.fetch.wait.max.ms": 150,
    "replica.high.watermark.checkpoint.interval.ms": 150,
    "log.retention.check.interval.ms": 200,
}
"""The same with fewer heartbeats to a session and fewer fetches until a follower lags: more of a run is faults."""

TRANSACTIONS_CONFIG: Mapping[str, int] = {
    "min.insync.replicas": 2,
    "transaction.state.log.num.partitions": 2,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
    "offsets.topic.num.partitions": 1,
}
"""Settings of a cluster with transactions: its logs of coordinators are few, and survive what the topic survives."""

SEGMENT_MS = 300
EXPIRATION_CHECK_MS = 150
RETENTION_MS = 600_000
"""Where records go by size they go by age as well, which a run has not unless a clock jumps."""


@attrs.frozen
class Options:
    """Everything that a run depends on besides the code; times in seconds, probabilities in 0..1."""

    seed: int
    brokers: int = 3
    partitions: int = 2
    replication_factor: int = 3
    log_directories: int = 1
    """Of each broker; each is a disk of its own."""
    retention_bytes: int | None = None
    """Size of a partition beyond which old segments go; None: nothing goes but what is deleted."""
    changes_unclean: bool = False
    """Whether a change of settings may be one of unclean.leader.election.enable."""
    min_insync_replicas: int = 2
    unclean_leader_election: bool = False
    producers: int = 2
    idempotent: int = 0
    """How many of the producers are idempotent."""
    in_flight: int = 5
    """How many batches each of those may have in flight to a partition."""
    sequences: int = 1 << 31
    """What sequences count modulo; a small number, so that they wrap."""
    producer_expiration_ms: int | None = None
    """After which time without a batch a producer is forgotten; None: Kafka's, which no run lasts."""
    segment_ms: int | None = None
    """How old a segment becomes; None: Kafka's, or what retention needs."""
    transactions: int = 0
    """How many transactional ids write; one more transforms, and readers of both isolation levels read. 0: none."""
    transaction_timeout_ms: int = 1_500
    transaction_versions: tuple[int, ...] = (2,)
    """Levels of `transaction.version` that the cluster has one after the other."""
    max_epoch: int = MAX_EPOCH
    """The largest epoch of a transactional producer; a small one, so that producer ids are replaced."""
    losses: Losses = Losses.ANY
    """What a crash takes of what was not synced."""
    consumers: int = 1
    readers: int = 1
    acks: tuple[int, ...] = (-1,)
    duration: float = 6.0
    pause_between_operations: float = 0.1
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    delay_ms: float = 1.0
    flush_interval_ms: int | None = None
    """How often brokers flush; None: never, so that a crash may take everything since the last one along."""
    faults: Mapping[Fault, int] = attrs.field(factory=dict)
    """Weight of each fault; those that are absent don't happen."""
    fault_interval: float = 0.6
    flush_messages: int | None = None
    """After how many records of a partition its leader and followers flush; None: at no number."""
    dense: bool = False
    """Whether faults come by the dozen, short, and at moments at which much is under way (`moments`)."""
    traced: bool = True
    """Whether the brokers trace their decisions. Those of a broker that does not may let idle partitions rest."""
    bug: str | None = None
    """A bug of the zoo to switch on."""
    turns: tuple[tuple[float, int], ...] = ()
    """(time, number): from then on other faults are drawn. What came before is as without that turn."""
    number: int | None = None
    """Of the run's history, where it is not the seed."""

    def config(self) -> dict[str, object]:
        """The brokers' settings."""
        flush = {} if self.flush_interval_ms is None else {"log.flush.scheduler.interval.ms": self.flush_interval_ms}
        expiration = {
            "producer.id.expiration.ms": self.producer_expiration_ms,
            "producer.id.expiration.check.interval.ms": EXPIRATION_CHECK_MS,
        }
        directories = ",".join(f"disk-{number}" for number in range(self.log_directories))
        return {
            **(DENSE_CONFIG if self.dense else CONFIG),
            **flush,
            **({} if self.producer_expiration_ms is None else expiration),
            **({"log.dirs": directories} if self.log_directories > 1 else {}),
            **({} if not self.transactions else TRANSACTIONS_CONFIG),
        }

    @property
    def damaging(self) -> frozenset[int]:
        """The brokers whose disks may damage what they have."""
        return frozenset({DAMAGED}) if self.faults.keys() & set(DAMAGES) else frozenset()

    @property
    def outages(self) -> tuple[float, ...]:
        """How long a fault lasts, one of these."""
        return (0.01, 0.03, 0.1, 0.4) if self.dense else (0.1, 0.5, 1.0, 2.5)

    @property
    def separations(self) -> tuple[float, ...]:
        """How long two brokers do not reach each other: long enough for a follower to lag, as often as not."""
        return (0.05, 0.3, 0.5, 0.7) if self.dense else self.outages

    def topic_config(self) -> dict[str, object]:
        """The topic's settings as it begins."""
        retention = {
            "retention.bytes": self.retention_bytes,
            "retention.ms": RETENTION_MS,
            "segment.ms": SEGMENT_MS,
        }
        return {
            "min.insync.replicas": self.min_insync_replicas,
            "unclean.leader.election.enable": self.unclean_leader_election,
            **({} if self.segment_ms is None else {"segment.ms": self.segment_ms}),
            **(retention if self.retention_bytes is not None else {}),
            **({} if self.flush_messages is None else {"flush.messages": self.flush_messages}),
        }

    def described(self) -> dict[str, str]:
        """Each option as text, for the first lines of a run."""
        described = {field.name: str(getattr(self, field.name)) for field in attrs.fields(Options)}
        described["acks"] = "/".join("all" if acks == -1 else str(acks) for acks in self.acks)
        described["losses"] = self.losses.value
        described["faults"] = ", ".join(f"{fault.value}×{weight}" for fault, weight in self.faults.items()) or "none"
        described["turns"] = told_turns(self.turns) or "None"
        return described


def told_turns(turns: tuple[tuple[float, int], ...]) -> str:
    """Turns as the command line takes them."""
    return ",".join(f"{at}:{number}" for at, number in turns)


def with_turns(options: Options, turns: tuple[tuple[float, int], ...]) -> Options:
    """The options of a run that draws other faults from those times on. Raises ValueError where it would draw none."""
    text, run = told_turns(turns), f"the run of seed {options.seed}"
    if turns and not options.faults:
        raise ValueError(f"turns {text}: {run} has no faults, so none are drawn: name another seed")
    if turns and turns[-1][0] >= options.duration:
        lasts = f"{options.duration:.3g} s"
        raise ValueError(f"turns {text}: {run} lasts {lasts}, and draws nothing from then on: give times below that")
    return attrs.evolve(options, turns=turns)


def read_turns(text: str) -> tuple[tuple[float, int], ...]:
    """Raises ValueError for what `told_turns` would not write."""
    turns = []
    for one in text.split(","):
        at, colon, number = one.partition(":")
        if not colon or not float(at) >= 0 or int(number) < 0:
            raise ValueError(f"turns {text}: give times and whole numbers, as 0.35:1,0.8:2")
        turns.append((float(at), int(number)))
    if turns != sorted(turns, key=lambda turn: turn[0]):
        raise ValueError(f"turns {text}: give the times in order, as 0.35:1,0.8:2")
    return tuple(turns)


ELECTIONS: Mapping[Fault, int] = {
    Fault.CRASH: 3,
    Fault.PAUSE: 3,
    Fault.EXPIRY: 3,
    Fault.ONE_WAY: 1,
    Fault.RESET: 1,
    Fault.PREFERRED: 1,
    Fault.CONTROLLER: 1,
}
"""Faults after which leaders change, often two in a row."""


def with_many_elections(options: Options) -> Options:
    """The same run on a slow network whose leaders change often: what a new leader lacks, clients may see."""
    return attrs.evolve(
        options,
        brokers=3,
        replication_factor=3,
        min_insync_replicas=2,
        acks=(-1,),
        retention_bytes=None,
        changes_unclean=False,
        unclean_leader_election=False,
        duration=5.0,
        delay_ms=50.0,
        faults=ELECTIONS,
        fault_interval=0.3,
        dense=False,
    )


DENSER = {Fault.CRASH: 16, Fault.PAUSE: 4, Fault.ISOLATE: 1, Fault.ONE_WAY: 2, Fault.SPLIT: 4}
DENSER |= dict.fromkeys((*OF_DAMAGE, Fault.RECREATION, Fault.FAILED_FLUSH), 4)
"""How much likelier the faults of processes and links, of a disk that damages, and deletions of a topic are in a dense
run."""


def draw(seed: int, *, bug: str | None = None) -> Options:
    """The options of a seed of a campaign: those of `sparse`, with ten times the faults in the same work.

    Without a bug some runs have fewer faults, so that what is rare has room.
    """
    options = dense(sparse(seed, bug=bug))
    if bug is not None:
        return options
    options = with_one_damage(options)
    wrapping = with_wrapping_sequences(options)
    return wrapping if wrapping != options else with_orders(options)


def dense(options: Options) -> Options:
    """The same with more faults and shorter ones, most of them of processes and links."""
    more = {fault: weight * DENSER.get(fault, 1) for fault, weight in options.faults.items()}
    return attrs.evolve(
        options,
        dense=True,
        duration=options.duration * 0.35,
        pause_between_operations=options.pause_between_operations / 2,
        delay_ms=min(options.delay_ms, 20.0),
        faults=more,
        fault_interval=options.fault_interval / 60,
        flush_interval_ms=None if options.flush_interval_ms is None else options.flush_interval_ms // 4,
        producer_expiration_ms=None if options.producer_expiration_ms is None else options.producer_expiration_ms // 3,
        segment_ms=None if options.segment_ms is None else options.segment_ms // 2,
    )


def sparse(seed: int, *, bug: str | None = None, duration: float | None = None) -> Options:
    """The options of a seed, with times in which a fault is over before the next one begins, more often than not.

    With a bug, which is one of replication, nobody administers the cluster meanwhile.
    """
    rng = Random(f"options/{seed}")  # a string is hashed the same way in every process
    weights = {
        fault: rng.choice(OFTEN)
        for fault in Fault
        if fault not in (*DISK_FAULTS, *CHANGES, *DAMAGES, *OF_DAMAGE, *OPERATED, Fault.FAILED_FLUSH)
    }
    shape = Random(f"options/{seed}/shape")
    of_disks = Random(f"options/{seed}/disks")
    directories = shape.choice((1, 1, 2))
    weights |= {fault: of_disks.choice(SELDOM if directories == 1 else OFTEN) for fault in DISK_FAULTS}
    of_changes = Random(f"options/{seed}/changes")
    weights |= {fault: of_changes.choice(OFTEN) for fault in CHANGES}
    of_operators = Random(f"options/{seed}/operators")
    weights |= {fault: of_operators.choice(OFTEN) if bug is None else 0 for fault in OPERATED}
    weights[Fault.RECREATION] = Random(f"options/{seed}/topics").choice((0, 0, 1, 3)) if bug is None else 0
    of_damage = Random(f"options/{seed}/damage")
    damages = {fault: of_damage.choice(OFTEN) for fault in OF_DAMAGE}
    unclean = rng.random() < 0.3
    if not unclean:
        weights[Fault.UNCLEAN] = 0
    options = Options(
        seed=seed,
        brokers=shape.choice((3, 3, 4)),
        replication_factor=shape.choice((2, 3, 3)),
        log_directories=directories,
        retention_bytes=shape.choice((None, None, 400, 2_000)),
        changes_unclean=unclean,
        partitions=rng.choice((1, 2, 3)),
        min_insync_replicas=rng.choice((1, 2, 2)),
        unclean_leader_election=unclean and rng.random() < 0.5,
        producers=rng.choice((1, 2, 3)),
        consumers=rng.choice((1, 2)),
        readers=rng.choice((0, 1)),
        acks=rng.choice(((-1,), (-1,), (-1, 1), (-1, 1, 0))),
        duration=rng.choice((3.0, 5.0)) if duration is None else duration,
        pause_between_operations=rng.choice((0.04, 0.08)),
        loss=rng.choice((0.0, 0.0, 0.01, 0.05)),
        duplicate=rng.choice((0.0, 0.0, 0.02, 0.1)),
        reorder=rng.choice((0.0, 0.0, 0.05, 0.2)),
        delay_ms=rng.choice((0.0, 2.0, 10.0, 50.0)),
        flush_interval_ms=rng.choice((None, 200, 1_000)),
        faults={fault: weight for fault, weight in weights.items() if weight},
        fault_interval=rng.choice((0.3, 0.6, 1.2)),
        bug=bug,
    )
    options = with_idempotent_producers(options)
    if bug is None:
        return with_failing_flushes(with_damage(options, damages))
    return producing(options) if bug in IDEMPOTENCE_BUGS else plain(options)


EXPIRATION_MS = 4_000
"""Of an idle producer: longer than one sends a batch again, and than a fault keeps a request on its way."""
FEW_SEQUENCES = 41
"""Many times what may be in flight, so that no late repeat is taken for a new batch."""


def with_idempotent_producers(options: Options) -> Options:
    """The same with idempotent producers in two runs of three, as the seed draws.

    A jumping clock makes every producer look idle: such a run does not forget any.
    """
    rng = Random(f"options/{options.seed}/producers")
    expiration, in_flight = rng.choice((None, EXPIRATION_MS)), rng.choice((1, 2, 5, 5))
    return attrs.evolve(
        options,
        idempotent=rng.choice((0, 1, options.producers)),
        in_flight=in_flight,
        sequences=rng.choice((1 << 31, FEW_SEQUENCES)),
        producer_expiration_ms=None if Fault.CLOCK in options.faults else expiration,
        segment_ms=rng.choice((None, SEGMENT_MS)),
    )


def with_failing_flushes(options: Options) -> Options:
    """The same, in one run of eight, with a topic that is flushed by number while processes lack descriptors."""
    rng = Random(f"options/{options.seed}/flushes/567")
    if rng.random() > 1 / 8:
        return options
    faults = {**options.faults, Fault.FAILED_FLUSH: rng.choice((1, 3))}
    return attrs.evolve(options, flush_messages=rng.choice((1, 1, 3)), faults=faults)


def without_operated(options: Options) -> Options:
    """The same without what operators do by which a cluster may lose what it was given to keep."""
    return without(options, *OPERATED)


def without_idempotent_producers(options: Options) -> Options:
    """The same with producers that send each record once."""
    return attrs.evolve(
        options, idempotent=0, sequences=1 << 31, in_flight=5, producer_expiration_ms=None, segment_ms=None
    )


def producing(options: Options) -> Options:
    """The same with nothing but idempotent producers, all on one partition, and with what makes replicas forget."""
    rng = Random(f"options/{options.seed}/producing")
    faults = {Fault.CRASH: 1, Fault.DELETION: 1, **options.faults}
    faults.pop(Fault.CLOCK, None)
    return attrs.evolve(
        options,
        producers=max(2, options.producers),
        idempotent=max(2, options.producers),
        in_flight=rng.choice((1, 5)),
        partitions=1,
        sequences=FEW_SEQUENCES,
        producer_expiration_ms=rng.choice((None, EXPIRATION_MS)),
        segment_ms=SEGMENT_MS,
        faults=faults,
    )


def with_damage(options: Options, damages: Mapping[Fault, int]) -> Options:
    """The same with a disk that does this to its logs, where the cluster promises to survive it.

    No broker is removed then: one that is neither in sync nor eligible, and has the last good copy, costs records.
    """
    promised = options.min_insync_replicas > 1 and not options.unclean_leader_election and not options.changes_unclean
    damages = {fault: weight for fault, weight in damages.items() if weight and (promised or fault not in DAMAGES)}
    if not damages:
        return options
    if damages.keys() & set(DAMAGES):
        options = without_operated(options)
    flush_interval_ms = options.flush_interval_ms or 200
    return attrs.evolve(options, faults={**options.faults, **damages}, flush_interval_ms=flush_interval_ms)


def with_one_damage(options: Options) -> Options:
    """The same, in some runs, with a disk that does one thing to its logs and has every partition.

    A disk damages only what others have. So no other disk fails, and nothing cuts those others off.
    """
    rng = Random(f"options/{options.seed}/one damage/54344")  # leaves the seeds alone that tests name
    if rng.random() > SINGLED_OUT_SHARE:
        return options
    options = without(options, *DRAWN_DAMAGES, *DISK_FAULTS, *CUTS, *OPERATED, Fault.UNCLEAN)
    return attrs.evolve(
        options,
        brokers=3,
        replication_factor=3,
        min_insync_replicas=2,
        unclean_leader_election=False,
        changes_unclean=False,
        flush_interval_ms=50,
        faults={**options.faults, rng.choice(SINGLED_OUT): SINGLED_OUT_WEIGHT},
    )


def with_orders(options: Options) -> Options:
    """The same, in some runs, with an operator who has leaders elected that lack records: the topic never elects so.

    Disks keep what they are told to, and no broker is removed: what is lost is what the operator gives up.
    """
    rng = Random(f"options/{options.seed}/orders/28757")  # the same
    if rng.random() > ORDERS_SHARE or options.damaging:
        return options
    faults = {
        **without(options, *DISK_FAULTS, Fault.FAILED_FLUSH, Fault.UNREGISTERING).faults,
        Fault.CRASH: ORDERS_WEIGHT,
        Fault.UNCLEAN: ORDERS_WEIGHT,
    }
    return attrs.evolve(options, unclean_leader_election=False, changes_unclean=False, faults=faults)


def with_wrapping_sequences(options: Options) -> Options:
    """The same, in some of the runs with idempotent producers, with an epoch that lasts until sequences wrap."""
    rng = Random(f"options/{options.seed}/wrapping/3438")  # the same
    if not options.idempotent or rng.random() > WRAPPING_SHARE:
        return options
    return attrs.evolve(
        without(options, *DISK_FAULTS, *CUTS, Fault.UNREGISTERING),
        partitions=1,
        producers=3,
        idempotent=3,
        sequences=FEW_SEQUENCES,
        in_flight=5,
        producer_expiration_ms=None,
        duration=1.75,
        pause_between_operations=0.02,
        delay_ms=min(options.delay_ms, 2.0),
        fault_interval=3 * options.fault_interval,
    )


def without(options: Options, *left_out: Fault) -> Options:
    """The same without these faults."""
    faults = {fault: weight for fault, weight in options.faults.items() if fault not in left_out}
    return attrs.evolve(options, faults=faults)


def plain(options: Options) -> Options:
    """The same on three brokers with every replica on one disk each, and without changes: replication gets the room."""
    faults = {fault: weight for fault, weight in options.faults.items() if fault not in (*DISK_FAULTS, *CHANGES)}
    options = attrs.evolve(
        options,
        brokers=3,
        replication_factor=3,
        log_directories=1,
        retention_bytes=None,
        changes_unclean=False,
        faults=faults,
    )
    return without_idempotent_producers(options)


def resting(options: Options) -> Options:
    """The same without a trace and with idle times, so that partitions of fetch sessions come to rest and wake.

    Without a trace nobody can declare unclean elections. So none is allowed, disks do not fail, and every record is
    flushed: a replica that crashes has all that it acknowledged.
    """
    left_out = (Fault.UNCLEAN, *DISK_FAULTS, *OPERATED)
    return attrs.evolve(
        options,
        traced=False,
        changes_unclean=False,
        unclean_leader_election=False,
        flush_messages=1,
        partitions=options.partitions + Random(f"options/{options.seed}/rest").choice((0, 0, 9)),
        pause_between_operations=8 * options.pause_between_operations,
        faults={fault: weight for fault, weight in options.faults.items() if fault not in left_out},
    )
