"""Nodes as operating-system processes on this machine."""
