"""Trainings that are not chaoslab's own: what they say about their steps, and where."""
