"""The learner: inner steps, messages to the syncer, checkpoints, and its program."""
