"""Nodes of a training that chaoslab did not start: found, broken, restored, and left running.

    found ─► AttachedFleet ─┬─ processes   the programs of this machine, by their command lines
                            ├─ containers  those of a Docker Compose project
                            └─ pods        those of a Kubernetes namespace

An attached training goes on after the run. What is done to a node is undone before the fleet is
left, and by the janitor if the harness dies (`restoring`).
"""
