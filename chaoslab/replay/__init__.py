"""Runs again: the same schedule, fewer faults that still fail, and the commit that broke it.

    record ─┬─► again: plan and schedule as they were ─────────────────────► a new record
            └─► minimise: fewer, shorter, milder injections ─► trials ─────► a small plan
    commits of a repository ─► bisect ─► worktree of each ─► `chaoslab run` ► the first bad one

The two searches know nothing of runs: they are handed what carries out one candidate, a real run
here, and a function in tests.
"""
