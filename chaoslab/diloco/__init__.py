"""The run under test: Decoupled DiLoCo with JAX learners, a CPU syncer and an evaluator."""
