"""Where nodes run: the fleet interface and what all fleets share."""
