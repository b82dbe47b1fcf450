"""Calibration of a simulation: the costs of its nodes, read from the journals of real runs."""
