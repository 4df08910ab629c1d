"""The published models of Raft in which followers pull: KRaft, and the two that it was tried out with."""
