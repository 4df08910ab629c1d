"""The published models of the diary of Kafka's transactions: a producer's id and epoch, and partitions added."""
