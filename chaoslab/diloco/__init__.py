"""The run under test: Decoupled DiLoCo by JAX learners, a CPU syncer and an evaluator."""
