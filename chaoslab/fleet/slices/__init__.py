"""Fleets whose nodes run on slices that a provider gives, takes away and replaces."""
