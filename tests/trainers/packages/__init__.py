"""Trainings whose loop comes from a package, and what they survive."""
