"""Types and functions that all packages use: events, errors, units, clocks, processes, files."""
