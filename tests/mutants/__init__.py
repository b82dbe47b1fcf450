"""Nodes with one thing wrong, to see whether the harness notices.

Each module wraps the real syncer or learner, takes the same flags and is started in its place:
`python -m tests.mutants.<name> …`. The product knows of none of them.
"""

VICTIM = "learner-1"
"""Whom a mutant wrongs, where it wrongs one learner of several."""
OTHER_VICTIM = "learner-2"
