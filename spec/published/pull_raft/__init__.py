"""The published model of Raft in which followers pull, before it became that of KRaft."""
