"""The published model of Kafka's replication as of version 3.5: one partition, its brokers, the KRaft controller."""
