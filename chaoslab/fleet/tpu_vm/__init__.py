"""Learners on Cloud TPU slices, reached by ssh: `fleet.remote` with hosts of `fleet.tpu`."""
