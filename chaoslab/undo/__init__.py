"""Undo log of a run, and its carrying out: janitor, heal, halt."""
