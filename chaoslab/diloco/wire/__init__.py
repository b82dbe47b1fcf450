"""Streams between learners and the syncer: the only door to grpc."""
