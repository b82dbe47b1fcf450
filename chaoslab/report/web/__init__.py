"""The report of a run as one web page: curves and lanes folded from its events, drawn by scripts.

    events ─► RunStory ─► run_data ─┐
    Verdict + History ───────────┼─► JSON ─► page.html + styles + scripts ─► report.html
    files of the record ─────────┘

What the page draws is one JSON value. The page loads nothing and sends nothing.
"""
