"""Timelines: steps of one learner and the transfers between them, over links of a given bandwidth.

    training ─► ring: layer by layer, wait where needed ──────┐
             └► star: as the real policy of the syncer decides ─┴─► Result: utilisation, rounds
    Result ─► engine: least bandwidth of a grid, longest step

All learners are alike, so one of them stands for all. Nothing fails, and nothing is random: see
`sim.renewal` for failures, and the fleet `sim` for both, message by message.
"""
