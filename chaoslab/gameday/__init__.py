"""Game-days: people watch a run being broken, decide, predict, and learn.

plan ─► charter ─► run that waits for operators (`run.operators`) ─► debrief
                        ▲                  │
                        └── orders ── terminal
"""
