"""What numba compiles is kept in files: one mechanism for the fast engine of specifications and for the checker."""
