"""The run as a Perfetto trace: tracks of nodes, links, rounds and faults, on one time axis.

    History ─► RunStory and events ─► tracks ─► TraceWriter ─► trace.pftrace

The same record gives the same bytes. Curves and slices of long runs are thinned, so the size
depends on the number of learners and faults, and hardly on the length of the run.
"""
