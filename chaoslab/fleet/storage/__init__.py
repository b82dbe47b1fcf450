"""Files that a node keeps: damaged, on a full volume, or lost with the power."""
