"""The report of a run as one web page: curves and lanes folded from its events, drawn by scripts.

    events ─► RunPicture.see ─┐
    Verdict + History ────────┼─► JSON ─► page.html + page.css + scripts ─► report.html
    files of the record ──────┘

What the page draws is one JSON value. The fold reads no file and needs no later event, so the same
page can show a run that goes on. The page loads nothing and sends nothing.
"""
