"""Chaos engineering for multi-learner language-model training."""

__version__ = "0.2.0"
