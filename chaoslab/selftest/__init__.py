"""Runs whose right answer is not PASS: the harness against its own blindness.

    catalogue: trials ─► `trial` ─► a short plan with something wrong ─► the real run ─► verdict
       plans/  mutants/                                                                    │
                                   caught: not PASS, and the finding that it was for ◄─────┘

Only the command `selftest` and the tests know of this package; no other part of chaoslab does.
"""
