"""Evidence of faults, read from the record."""
