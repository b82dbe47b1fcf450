"""One module for each family of commands; `chaoslab.cli` gathers them. Heads import click only."""
