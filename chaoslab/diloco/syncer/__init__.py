"""The syncer: policy, merge, state on disk, and the program."""
