"""Everything at once on a cluster: each extension brings its own, and there is nothing to add to the invariants."""

from __future__ import annotations

from tidegauge.model_tests.harness.cluster.binding import ClusterExtension
from tidegauge.spec.replication.composed import Together


class TogetherOnCluster(ClusterExtension):
    """What extensions mean together is said in invariants alone."""

    extends = Together
