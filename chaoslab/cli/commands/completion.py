"""`chaoslab completion`: the script that completes commands, options and names.

eval "$(chaoslab completion bash)" ─► the shell asks `chaoslab` at each Tab ─► `completing`
"""

import click
from click.shell_completion import get_completion_class

from chaoslab.cli.commands.output import examples
from chaoslab.core.errors import HarnessBug

_SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_CHAOSLAB_COMPLETE"


@click.command(
    name="completion",
    epilog=examples(
        'eval "$(chaoslab completion bash)"       in ~/.bashrc',
        'eval "$(chaoslab completion zsh)"        in ~/.zshrc, after compinit',
        "chaoslab completion fish > ~/.config/fish/completions/chaoslab.fish",
    ),
)
@click.argument("shell", type=click.Choice(_SHELLS))
def command(*, shell: str) -> None:
    """Print the completion script for a shell.

    It completes commands, options, names of included plans and plan files, runs below ./runs (or
    --out), faults, checks, fleets, and trials of the selftest.
    """
    from chaoslab.cli.main import main  # noqa: PLC0415  # which imports this module

    found = get_completion_class(shell)
    if found is None:
        raise HarnessBug(f"click knows no completion for {shell}")
    click.echo(found(main, {}, "chaoslab", _VARIABLE).source())
