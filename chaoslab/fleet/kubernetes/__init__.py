"""Nodes as Jobs of a Kubernetes cluster."""
