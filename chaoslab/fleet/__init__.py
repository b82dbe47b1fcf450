"""Fleets, in which nodes run: their interface, and what all of them share."""
