"""Verbs and incarnations of nodes, shared by the fleets in which programs run."""
