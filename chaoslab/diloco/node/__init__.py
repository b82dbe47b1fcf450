"""What every node of a training shares: events, test hooks, durable files, health."""
