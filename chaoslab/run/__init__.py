"""One run, its fault-free twin, and its verdict."""
