"""The syncer: policy, merge, state on disk, and its program."""
