"""A learner: inner steps, messages to the syncer, checkpoints, and the program."""
