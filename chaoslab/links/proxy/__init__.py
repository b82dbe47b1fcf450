"""Embedded proxy, which runs as a process of its own. Standard library only."""
