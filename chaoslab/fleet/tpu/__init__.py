"""Cloud TPU slices as hosts of learners: created, watched, broken, repaired and deleted."""
