"""Nodes on other hosts: a host agent on each, and the fleet that speaks to them."""
