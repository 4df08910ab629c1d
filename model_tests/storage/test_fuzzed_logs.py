"""Logs that are damaged at random keep what docs/durability.md promises: a few by default, thousands with --deep.

`python -c "from tidegauge.model_tests.harness.damage.fuzzed import check; check(2247)"` repeats a seed.
"""

from __future__ import annotations

import pytest

from tidegauge.model_tests.harness.damage.fuzzed import check, judged

FOUND_CLEANED = (147, 618, 666, 935, 971, 1162, 2269, 2749, 7696)
"""Seeds of logs that Kafka's cleaner was at: a lost segment was passed over in silence; intact batches were cut among
damaged ones, or since they lay in another file; a foreign file moved the end; a batch that the second process refused;
one that leapt over a recovery point; an empty file that hid a batch."""
FOUND_KEPT = (971, 1643, 1677, 1784, 1808, 2169, 2459, 2548, 2578, 2991)
"""Seeds whose intact batches were cut without a copy, or a repair removed them."""
FOUND = (668, 2236, 2247, 6447, 20115)
"""Seeds that were failures: a topic id had changed, and an empty log took the place of what became a stray; a recovery
point was too low after a clean stop, and damage was cut as a torn tail; the last batch leapt over a recovery point,
which was rejected for it, and then believed."""


@pytest.mark.parametrize("seed", [*FOUND, *FOUND_KEPT, *range(40)])
def test_a_damaged_log_keeps_what_is_promised(seed: int) -> None:
    assert check(seed) == ""  # it is judged


@pytest.mark.parametrize("seed", [*FOUND_CLEANED, *range(26), *range(27, 40)])  # 26 is not judged
def test_a_damaged_log_that_a_cleaner_was_at_keeps_what_is_promised(seed: int) -> None:
    assert check(seed, is_cleaned=True) == ""


@pytest.mark.deep
@pytest.mark.parametrize("start", range(0, 20_000, 1_000))
def test_thousands_of_damaged_logs_keep_what_is_promised(start: int) -> None:
    found = judged(range(start, start + 1_000)) + judged(range(start, start + 1_000), is_cleaned=True)
    print(dict(found))
    assert found[""] > 1_960, found
