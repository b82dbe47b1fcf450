"""Words of every part: events, errors, units, clocks, and processes known by identity."""
