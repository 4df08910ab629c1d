"""A proxy between Kafka's clients and any cluster that writes down what they did (docs/tap.md)."""
