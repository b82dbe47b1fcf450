"""The run as a Perfetto trace: tracks of nodes, links, rounds and faults, on one time axis.

    History ─► run, faults, syncer, learners, links: each draws its tracks ─► TraceWriter ─► bytes

The same record gives the same bytes. Curves and slices of long runs are thinned (`thinning`), so
the size depends on the number of learners and faults, and hardly on the length of the run.
"""
