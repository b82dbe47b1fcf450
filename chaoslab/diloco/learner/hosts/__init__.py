"""Learners of several hosts: a process for each, their supervisor, and their connections."""
