"""Record what real Kafka clients see at any Kafka-compatible cluster, as a history that can be checked."""
