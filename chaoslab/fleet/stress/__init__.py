"""Stress on nodes: who bears which, and the processes that keep it up."""
