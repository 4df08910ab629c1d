"""Regular expressions of topics (KIP-848): which names they match, remembered from one metadata image to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import attrs

from tidegauge.impl.coordinators.groups.consumer.state import Topic
from tidegauge.impl.coordinators.name_patterns import NamePattern, PatternError

if TYPE_CHECKING:
    from tidegauge.impl.metadata.image import ClusterImage
    from tidegauge.impl.server.pace import Pace

MOST: Final = 1_000
"""Expressions that are remembered; the oldest is forgotten first."""


class ImageTopics(Mapping[str, Topic]):
    """The topics of the metadata image, as the core asks for them."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image

    def __getitem__(self, name: str) -> Topic:
        topic = self._image.topics[name]
        return Topic(topic.topic_id, len(topic.partitions))

    def __iter__(self) -> Iterator[str]:
        return iter(self._image.topics)

    def __len__(self) -> int:
        return len(self._image.topics)


class _Expression:
    """One of them, and the names that it was held against."""

    def __init__(self, source: str) -> None:
        """Raises PatternError."""
        self._pattern = NamePattern(source)
        self._known: set[str] = set()
        self._found: set[str] = set()
        self._matching: frozenset[str] | None = frozenset()
        """What was found; None after it has changed."""

    async def learn(self, names: Mapping[str, object], pace: Pace) -> None:
        """Be held against these names in slices; what others learn meanwhile is not learnt again."""
        while new := names.keys() - self._known:
            for name in new:
                if name not in self._known:
                    self._note(name, matches=await pace.finish(self._pattern.matching(name)))

    def matching(self, names: Mapping[str, object]) -> frozenset[str]:
        """What it matches of these names; only those that it does not know take time."""
        if self._known != names.keys():
            for name in self._known - names.keys():
                self._known.discard(name)
                self._found.discard(name)
                self._matching = None
            for name in names.keys() - self._known:
                self._note(name, matches=self._pattern.matches(name))
        if self._matching is None:
            self._matching = frozenset(self._found)
        return self._matching

    def _note(self, name: str, *, matches: bool) -> None:
        self._known.add(name)
        if matches:
            self._found.add(name)
            self._matching = None


class TopicExpressions:
    """The expressions of the groups that a broker coordinates."""

    def __init__(self) -> None:
        self._expressions: dict[str, _Expression] = {}

    async def learn(self, expressions: Iterable[str], names: Mapping[str, object], pace: Pace) -> None:
        """Hold these expressions against the names in slices, so that `matching` has little left to do."""
        for expression in expressions:
            with suppress(PatternError):  # its member is told
                await self._of(expression).learn(names, pace)

    def matching(self, expression: str, names: Mapping[str, object]) -> frozenset[str]:
        """The names that an expression matches as a whole. Raises PatternError."""
        return self._of(expression).matching(names)

    def _of(self, expression: str) -> _Expression:
        if expression not in self._expressions:
            made = _Expression(expression)
            if len(self._expressions) == MOST:
                del self._expressions[next(iter(self._expressions))]
            self._expressions[expression] = made
        return self._expressions[expression]


@attrs.frozen(eq=False, repr=False)
class TopicsOfImage:
    """The topics of a metadata image as one member may know them (`KnownTopics`)."""

    image: ClusterImage
    expressions: TopicExpressions
    may_describe: Callable[[str], bool]
    time_ms: int

    @property
    def topics(self) -> Mapping[str, Topic]:
        return ImageTopics(self.image)

    @property
    def version(self) -> int:
        return self.image.offset

    def matching(self, expression: str) -> frozenset[str]:
        """Without what the member may not describe. Raises PatternError."""
        return frozenset(filter(self.may_describe, self.expressions.matching(expression, self.image.topics)))
