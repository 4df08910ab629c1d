"""Rates and token buckets: how quotas are measured (KIP-13, KIP-599).

Times are parameters, in ms. A rate is computed over the last few windows, as in Kafka: what was recorded in them,
divided by the time since the oldest of them began. The divisor is at least all windows but one, so that a burst after
a silence is not taken for a high rate. A bucket fills at its rate up to its capacity, and may be overdrawn once.
"""

from __future__ import annotations

import attrs


@attrs.frozen(eq=False, repr=False)
class Windows:
    """How many windows a rate is computed over, and how long one is."""

    count: int
    size_ms: int

    @property
    def span_s(self) -> float:
        """All of them together."""
        return self.count * self.size_ms / 1000


@attrs.define(eq=False, repr=False)
class Rate:
    """The rate of what was recorded lately."""

    windows: Windows
    _samples: list[tuple[int, float]] = attrs.field(factory=list)
    """(beginning in ms, sum), the oldest first."""

    def record(self, value: float, now_ms: int) -> None:
        """Add to the present window; a new one begins when it is over."""
        if self._samples and now_ms - self._samples[-1][0] < self.windows.size_ms:
            begun_ms, total = self._samples[-1]
            self._samples[-1] = (begun_ms, total + value)
        else:
            self._samples.append((now_ms, value))
        self._forget(now_ms)

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """How long a client has to be silent for its rate to be `limit` a second; 0 when it is not above it."""
        self._forget(now_ms)
        if not self._samples:
            return 0
        elapsed_ms = self._elapsed_ms(now_ms)
        observed = sum(total for _, total in self._samples) * 1000 / elapsed_ms
        return round((observed - limit) / limit * elapsed_ms) if observed > limit else 0

    def _elapsed_ms(self, now_ms: int) -> int:
        elapsed_ms = now_ms - self._samples[0][0]
        missing = max(0, self.windows.count - 1 - elapsed_ms // self.windows.size_ms)
        return max(1, elapsed_ms + missing * self.windows.size_ms)

    def _forget(self, now_ms: int) -> None:
        oldest_ms = now_ms - self.windows.count * self.windows.size_ms
        while self._samples and self._samples[0][0] <= oldest_ms:
            del self._samples[0]


@attrs.define(eq=False, repr=False)
class TokenBucket:
    """What may be spent: `rate` tokens a second, up to those of all windows together."""

    windows: Windows
    _tokens: float | None = None
    """None before the first use: it begins full."""
    _last_ms: int = 0

    def spend(self, tokens: float, rate: float, now_ms: int) -> None:
        """Take tokens, more than there are if need be."""
        self._tokens = self._filled(rate, now_ms) - tokens
        self._last_ms = now_ms

    def throttle_ms(self, rate: float, now_ms: int) -> int:
        """How long until the bucket is no longer overdrawn."""
        tokens = self._filled(rate, now_ms)
        return round(-tokens * 1000 / rate) if tokens < 0 else 0

    def _filled(self, rate: float, now_ms: int) -> float:
        most = rate * self.windows.span_s
        if self._tokens is None:
            return most
        return min(most, self._tokens + max(0, now_ms - self._last_ms) * rate / 1000)
