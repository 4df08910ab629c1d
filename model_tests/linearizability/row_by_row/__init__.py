"""The rules of docs/history.md for a log, row by row: slow and plain, the oracle of the passes over arrays."""
