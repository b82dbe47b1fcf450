"""Simulator: a fleet of modelled nodes under the real policy, and failures of many chips."""
