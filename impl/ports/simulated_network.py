"""The simulated network: all nodes in one process, every fault, everything from one seed.

Theory of operation
-------------------
Nodes are names; each gets its own `Network` (`SimulatedNetwork.host`). Frames travel over *links*, ordered pairs of
nodes. What happens to the nth frame of a link is a function of (seed, link, n) and of the link's `LinkFaults`, never of
what other links do: adding a client does not change the faults between brokers, and a run is its seed.

A frame that was sent

1. waits in `in_flight` when a hold matches it, until `release`, `drop` or `duplicate` (the harness decides);
2. is lost by chance (the connection stays, the response never comes), or waits while its link is blocked: TCP sends it
   again until the partition heals or the connection is given up;
3. else arrives after the link's delay, at once if there is none, and perhaps once more. Frames of one connection keep
   their order unless one is picked for reordering, when later ones overtake it.

Delays need `run()` in a nursery. A connection that is cut by a crash ends at the peer behind the frames that were on
their way; one whose end is hidden by a partition ends when that heals.
"""

from __future__ import annotations

import errno
import heapq
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import TypeAlias

import attrs
import trio

from tidegauge.impl.ports.link_faults import NO_FAULTS, LinkFaults
from tidegauge.impl.ports.network import Address, Listener, Network, StreamHandler
from tidegauge.impl.ports.simulated_stream import Connection, Frame, SimulatedStream

__all__ = ["NO_FAULTS", "Frame", "FrameFilter", "LinkFaults", "SimulatedNetwork"]

FrameFilter: TypeAlias = Callable[[Frame], bool]
Link: TypeAlias = tuple[str, str]


class SimulatedNetwork:
    """All links between all nodes, and their faults."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.in_flight: list[Frame] = []
        """Frames that a hold keeps, oldest first."""
        self.counters: Counter[str] = Counter()
        """How often each thing happened: sent, lost, stalled, delayed, reordered, duplicated, held, delivered."""
        self._faults: dict[tuple[str | None, str | None], LinkFaults] = {}
        self._blocked: dict[Link, None] = {}
        self._isolated: dict[str, tuple[bool, bool]] = {}
        self._paused: dict[str, trio.Event] = {}
        self._numbers: dict[Link, int] = {}
        self._holds: list[FrameFilter] = []
        self._listeners: dict[Address, SimulatedListener] = {}
        self._connections: dict[int, Connection] = {}
        self._opened = 0
        self._stalled: list[Frame] = []
        """Frames that a partition keeps from arriving, oldest first."""
        self._delayed: list[tuple[float, int, Frame]] = []
        self._scheduled = 0
        self._earlier = trio.Event()

    def host(self, node: str) -> Network:
        """The network as `node` sees it."""
        return SimulatedHost(self, node)

    # --- faults ------------------------------------------------------------------------------------------------

    def set_faults(self, faults: LinkFaults, source: str | None = None, destination: str | None = None) -> None:
        """Faults of the links from `source` to `destination`; None stands for every node, the more exact rule wins."""
        self._faults[source, destination] = faults

    def clear_faults(self) -> None:
        """Every link delivers everything at once again; partitions, pauses and holds stay."""
        self._faults.clear()

    def rule(self, source: str | None = None, destination: str | None = None) -> LinkFaults:
        """The rule that was set for exactly these ends."""
        return self._faults.get((source, destination), NO_FAULTS)

    def faults_of(self, source: str, destination: str) -> LinkFaults:
        if not self._faults:
            return NO_FAULTS
        for rule in ((source, destination), (source, None), (None, destination), (None, None)):
            if (faults := self._faults.get(rule)) is not None:
                return faults
        return NO_FAULTS

    def block(self, source: str, destination: str) -> None:
        """Let nothing pass from `source` to `destination`; the other direction stays open (an asymmetric partition)."""
        self._blocked[source, destination] = None

    def partition(self, *groups: Iterable[str]) -> None:
        """Let nothing pass between nodes of different groups, either way."""
        members = [list(group) for group in groups]
        for ours in members:
            for theirs in members:
                if ours is not theirs:
                    for source in ours:
                        for destination in theirs:
                            self.block(source, destination)

    def isolate(self, node: str, *, inbound: bool = True, outbound: bool = True) -> None:
        """Cut `node` off from all others, those to come included, in either or both directions."""
        self._isolated[node] = inbound, outbound

    def heal(self, node: str | None = None) -> None:
        """Undo `block`, `partition` and `isolate`: all of them, or those that touch `node`.

        What was sent meanwhile arrives, unless its connection was given up.
        """
        if node is None:
            self._blocked.clear()
            self._isolated.clear()
        else:
            self._blocked = {link: None for link in self._blocked if node not in link}
            self._isolated.pop(node, None)
        stalled, self._stalled = self._stalled, []
        for frame in stalled:
            self._arrive(frame)
        for connection in list(self._connections.values()):
            connection.settle()

    def is_blocked(self, source: str, destination: str) -> bool:
        if not self._blocked and not self._isolated:
            return False
        return (
            (source, destination) in self._blocked
            or self._isolated.get(source, (False, False))[1]
            or self._isolated.get(destination, (False, False))[0]
        )

    def pause(self, node: str) -> None:
        """Stop `node`: it neither reads nor sends, and what is sent to it piles up."""
        self._paused.setdefault(node, trio.Event())

    def resume(self, node: str) -> None:
        """Let `node` run on; it finds everything that piled up."""
        if (resumed := self._paused.pop(node, None)) is not None:
            resumed.set()

    def is_paused(self, node: str) -> bool:
        return node in self._paused

    async def until_running(self, node: str) -> None:
        while (resumed := self._paused.get(node)) is not None:
            await resumed.wait()

    def reset(self, node: str, peer: str | None = None) -> int:
        """Cut the connections of `node` (with `peer` only, if given) and return how many there were."""
        cut = [c for c in self._connections.values() if self._touches(c, node, peer)]
        for connection in cut:
            for end in (connection.client, connection.server):
                self.lose_frames_to(end)
                end.forget_unread()
                end.end_of_stream()
        return len(cut)

    @staticmethod
    def _touches(connection: Connection, node: str, peer: str | None) -> bool:
        ends = connection.client.node, connection.server.node
        return node in ends and (peer is None or peer in ends)

    def crash(self, node: str, *, lose_sent: bool = True) -> None:
        """`node` is gone: it listens no more, its connections end, and what was on its way to it is lost.

        With `lose_sent` so is what it had sent and nobody has read yet, a paused peer say, by connections that it had
        closed too (the machine died); without, that still arrives (the process died).
        """
        self._listeners = {a: listener for a, listener in self._listeners.items() if listener.node != node}
        self.resume(node)
        for connection in list(self._connections.values()):
            for end in (connection.client, connection.server):
                if end.node != node:
                    continue
                if not end.closed:
                    self.lose_frames_to(end)
                if lose_sent:
                    peer = connection.peer_of(end)
                    self.lose_frames_to(peer)
                    peer.forget_unread()
                end.close()

    def lose_frames_to(self, end: SimulatedStream) -> None:
        """Drop every frame that is on its way to `end`."""
        if not end.arriving:
            return
        self.counters["lost"] += end.arriving
        self.in_flight[:] = [frame for frame in self.in_flight if frame.end is not end]
        self._stalled = [frame for frame in self._stalled if frame.end is not end]
        self._delayed = [entry for entry in self._delayed if entry[2].end is not end]
        heapq.heapify(self._delayed)
        end.arriving = 0
        end.connection.settle()

    # --- hold mode ---------------------------------------------------------------------------------------------

    def hold(self, matches: FrameFilter = lambda frame: True) -> FrameFilter:
        """From now on keep every frame that matches in `in_flight`. Returns the hold, for `unhold`."""
        self._holds.append(matches)
        return matches

    def unhold(self, matches: FrameFilter | None = None) -> None:
        """End one hold, or all of them; frames already held stay until they are released or dropped."""
        if matches is None:
            self._holds.clear()
        else:
            self._holds.remove(matches)

    def release(self, frame: Frame) -> bool:
        """Deliver a held frame now. Returns whether the connection was still there to take it."""
        self._take(frame)
        deliverable = frame.deliverable
        self._arrive(frame)
        return deliverable

    def drop(self, frame: Frame) -> None:
        """Lose a held frame."""
        self._take(frame)
        self.counters["lost"] += 1
        self._gone(frame)

    def duplicate(self, frame: Frame) -> Frame:
        """Put a second copy of a held frame behind all others in `in_flight`, and return it."""
        if frame not in self.in_flight:
            raise ValueError(f"{frame} is not in flight")
        copy = attrs.evolve(frame)
        copy.end.arriving += 1
        self.in_flight.append(copy)
        self.counters["duplicated"] += 1
        return copy

    def _take(self, frame: Frame) -> None:
        try:
            self.in_flight.remove(frame)
        except ValueError:
            raise ValueError(f"{frame} is not in flight: it was released or dropped before") from None

    # --- what happens to a frame ---------------------------------------------------------------------------------

    def next_number(self, source: str, destination: str) -> int:
        number = self._numbers.get((source, destination), 0)
        self._numbers[source, destination] = number + 1
        return number

    def carry(self, frame: Frame) -> None:
        """Take a frame that was just sent."""
        self.counters["sent"] += 1
        frame.end.arriving += 1
        if self._holds and any(matches(frame) for matches in self._holds):
            self.counters["held"] += 1
            self.in_flight.append(frame)
        elif self.is_blocked(frame.source, frame.destination):
            self._stall(frame)
        elif (faults := self.faults_of(frame.source, frame.destination)) is NO_FAULTS and not self._delayed:
            self._arrive(frame)
        else:
            self._afflict(frame, faults)

    def _afflict(self, frame: Frame, faults: LinkFaults) -> None:
        lost, doubled, reordered, delay, later, again = self._draws(frame)
        if lost < faults.loss:
            self.counters["lost"] += 1
            if frame.is_request:
                frame.end.connection.awaited.pop(frame.correlation_id, None)
            self._gone(frame)
            return
        now = trio.current_time()
        arrival = now + _between(faults.delay_ms, delay) / 1000
        if reordered < faults.reorder:
            self.counters["reordered"] += 1
            arrival += _between(faults.reorder_ms, later) / 1000
        else:
            arrival = frame.end.last_arrival = max(arrival, frame.end.last_arrival)
        self._schedule(frame, now, arrival)
        if doubled < faults.duplicate:
            self.counters["duplicated"] += 1
            frame.end.arriving += 1
            self._schedule(attrs.evolve(frame), now, arrival + _between(faults.reorder_ms, again) / 1000)

    def _draws(self, frame: Frame) -> tuple[float, ...]:
        """Six numbers in [0, 1) that depend on the seed, the link and the frame's number alone."""
        key = f"{self.seed}/{frame.source}/{frame.destination}/{frame.number}".encode()
        digest = blake2b(key, digest_size=48).digest()
        return tuple(int.from_bytes(digest[i : i + 8], "big") / 2**64 for i in range(0, 48, 8))

    def _schedule(self, frame: Frame, now: float, arrival: float) -> None:
        if arrival <= now:
            self._arrive(frame)
            return
        self.counters["delayed"] += 1
        self._scheduled += 1
        heapq.heappush(self._delayed, (arrival, self._scheduled, frame))
        if self._delayed[0][2] is frame:
            self._earlier.set()

    async def run(self) -> None:
        """Deliver delayed frames when their time has come; runs until cancelled."""
        while True:
            self._earlier = trio.Event()
            deadline = self._delayed[0][0] if self._delayed else float("inf")
            with trio.CancelScope(deadline=deadline):
                await self._earlier.wait()
            while self._delayed and self._delayed[0][0] <= trio.current_time():
                self._arrive(heapq.heappop(self._delayed)[2])

    def _stall(self, frame: Frame) -> None:
        self.counters["stalled"] += 1
        self._stalled.append(frame)

    def _arrive(self, frame: Frame) -> None:
        if self.is_blocked(frame.source, frame.destination):
            self._stall(frame)
            return
        if not frame.end.closed:
            self.counters["delivered"] += 1
            frame.end.arrive(frame.data)
        self._gone(frame)

    def _gone(self, frame: Frame) -> None:
        frame.end.arriving -= 1
        if not frame.end.arriving:
            frame.end.connection.settle()

    # --- connections -------------------------------------------------------------------------------------------

    def connect(self, node: str, address: Address) -> SimulatedStream:
        """Open a connection from `node`. Raises OSError when nobody listens there or a partition lies between."""
        listener = self._listeners.get(address)
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"{os.strerror(errno.ECONNREFUSED)}: {address}")
        if self.is_blocked(node, listener.node) or self.is_blocked(listener.node, node):
            raise OSError(errno.EHOSTUNREACH, f"{os.strerror(errno.EHOSTUNREACH)}: {address}")
        self._opened += 1
        connection = Connection(self._opened, self)
        connection.open(node, listener.node)
        self._connections[connection.id] = connection
        listener.accept(connection.server)
        return connection.client

    def listen(self, node: str, address: Address) -> Listener:
        """Take connections for `node` at `address`; port 0 picks a free one."""
        port = address.port or next(p for p in range(9092, 65536) if Address(address.host, p) not in self._listeners)
        address = Address(address.host, port)
        if address in self._listeners:
            raise OSError(errno.EADDRINUSE, f"{os.strerror(errno.EADDRINUSE)}: {address}")
        listener = self._listeners[address] = SimulatedListener(self, node, address)
        return listener

    def forget(self, connection: Connection) -> None:
        self._connections.pop(connection.id, None)

    def unlisten(self, listener: SimulatedListener) -> None:
        if self._listeners.get(listener.address) is listener:
            del self._listeners[listener.address]

    def under_way(self) -> Iterator[tuple[str, str, int]]:
        """(from, to, API key) of each request that may still be carried out: nobody has responded to it, and its
        receiver has not closed the connection, though its sender may have given it up long ago.
        """
        for connection in self._connections.values():
            client, server = connection.client, connection.server
            for api_key in () if server.closed else connection.awaited.values():
                yield client.node, server.node, api_key

    @property
    def open_connections(self) -> int:
        """Connections with at least one end open."""
        return len(self._connections)


def _between(bounds: tuple[float, float], draw: float) -> float:
    least, most = bounds
    return least + draw * (most - least)


class SimulatedListener:
    """A port of a simulated node."""

    def __init__(self, network: SimulatedNetwork, node: str, address: Address) -> None:
        self._network = network
        self.node = node
        self.address = address
        self._accepted, self._incoming = trio.open_memory_channel[SimulatedStream](float("inf"))

    def accept(self, stream: SimulatedStream) -> None:
        self._accepted.send_nowait(stream)

    async def serve(self, handler: StreamHandler) -> None:
        async with trio.open_nursery() as nursery:
            async for stream in self._incoming:
                nursery.start_soon(self._handle, handler, stream)

    @staticmethod
    async def _handle(handler: StreamHandler, stream: SimulatedStream) -> None:
        try:
            await handler(stream)
        finally:
            stream.close()

    async def aclose(self) -> None:
        self._network.unlisten(self)
        await self._accepted.aclose()


@attrs.frozen
class SimulatedHost:
    """The network as one node sees it."""

    network: SimulatedNetwork
    node: str

    async def connect(self, address: Address) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        await self.network.until_running(self.node)
        stream: trio.abc.Stream = self.network.connect(self.node, address)
        return stream

    async def listen(self, address: Address) -> Listener:
        await trio.lowlevel.checkpoint()
        return self.network.listen(self.node, address)
