"""The paths between learners and the syncer, each shaped on request."""
