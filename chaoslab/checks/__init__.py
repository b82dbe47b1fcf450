"""Checks of a record, and the verdict made of their findings."""
