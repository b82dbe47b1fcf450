"""Stress on nodes: the registry of a fleet, and the processes that apply it."""
