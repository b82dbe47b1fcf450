"""Renewal processes: goodput and uptime of years of millions of chips, by their failures alone.

    failure_models ─► rates per chip, domains ─┐
    scenario ─► policy, costs of changes ──────┼─► engine ─► goodput, uptime, counts
    one random stream per learner ─────────────┘

Chips are a rate, not objects: the work grows with the failures, the memory with the chips that are
out of service. No steps, messages or merges are simulated here.
"""
