"""Fuzzing: whatever bytes arrive, a clear error or a closed connection, and nothing else."""
