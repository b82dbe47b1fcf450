"""One module for each command; `chaoslab.cli.main` imports it when the command is called."""
