"""Deterministic simulation testing: random plans, simulated, must keep all rules."""
