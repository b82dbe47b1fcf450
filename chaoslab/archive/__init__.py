"""Runs on record, together: an index of them, comparisons, trends, what holds now, clean-up.

    runs/ ─► index ─► PastRun, … ─┬─► compare    two of them, and what changed in between
                                  ├─► trend      margins of one plan over its runs
                                  ├─► last_verdicts  of each plan, and whether they are still valid
                                  └─► cleanup    which to remove

Everything is read from the run directories at each call: there is no file that could grow old.
Records are only read, but for `cleanup.remove`.
"""
