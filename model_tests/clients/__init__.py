"""Real Kafka clients against the cluster, over TCP."""
