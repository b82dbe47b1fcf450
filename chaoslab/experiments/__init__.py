"""Experiments: a base and a matrix of settings, each cell simulated with many seeds.

    file.yaml ─► Experiment ─► cells by seeds ─► worker processes ─► results.jsonl
                                                                        │
                 README.md, results.csv, figure.svg ◄── tables ◄────────┘ beside published values

`kinds` lists what a cell can simulate; nothing else here knows any of them.
"""
