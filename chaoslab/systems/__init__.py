"""Systems of others as targets: their membership and averaging, chaoslab's model, steps and events.

`chaoslab.prepare.systems` lists them. The programs here run in an environment of the system's own.
"""
