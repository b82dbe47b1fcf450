"""Sub-commands of `chaoslab doctor`: images, systems, cloud slices, rights, old records."""
