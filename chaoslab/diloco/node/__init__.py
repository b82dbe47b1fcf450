"""Modules shared by all node programs: events, test hooks, durable files, health."""
