"""Fault plans: the model, the file format, and the schedule drawn from one seed."""
