"""The command line: `chaoslab.cli.main` parses, `commands` does."""
