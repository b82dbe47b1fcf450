"""Deterministic simulation testing: random plans, simulated, against what must always hold."""
