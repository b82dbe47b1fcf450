"""Learners on Cloud TPU slices, which are created, watched, broken, repaired and deleted."""
