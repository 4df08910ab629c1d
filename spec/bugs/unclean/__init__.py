"""The zoo's part on transactions under unclean elections: each a historical bug, as the one rule that was wrong."""

from __future__ import annotations

from collections.abc import Mapping

from tidegauge.spec.bugs.bug import Bug
from tidegauge.spec.bugs.unclean import kafka_7408
from tidegauge.spec.transactions.unclean import UncleanTransactions

UNCLEAN_BUGS: Mapping[str, Bug[UncleanTransactions]] = {kafka_7408.BUG.name: kafka_7408.BUG}
"""By name."""

__all__ = ["UNCLEAN_BUGS", "Bug"]
