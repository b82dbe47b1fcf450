"""Record of a run: its directory, its journal, and where it came from."""
