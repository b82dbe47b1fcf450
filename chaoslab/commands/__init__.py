"""One module for each command; `chaoslab.cli` imports it when the command is called."""
