"""Undo log of a run, and whoever carries it out: janitor, heal, halt."""
