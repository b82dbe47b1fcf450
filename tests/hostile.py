"""Words that run a command where a shell reads them unquoted, each in a way of its own.

    words(canary) ─► a plan, a command, a name ─► … ─► is_untouched(canary), the words unchanged

For tests of whatever hands text of plans, inventories or records to another program.
"""

from pathlib import Path


def words(canary: Path) -> tuple[str, ...]:
    """Whichever shell reads one of them unquoted makes the file `canary`, or passes on others."""
    touch = f"touch {canary}"
    return (
        f"$({touch})",
        f"`{touch}`",
        f"x; {touch} #",
        f"x' ; {touch} ; '",
        f'x" ; {touch} ; "',
        f"x\n{touch}\n",
        f"x | {touch}",
        f"x && {touch}",
        f"> {canary}",
        f"$(touch${{IFS}}{canary})",
        f"-oProxyCommand={touch}",
        "--help",
        "two  words",
        "*",
        "~",
        "$HOME",
        "%s",
        "back\\slash",
        "ünïcode ☃",
        "",
    )


def is_untouched(canary: Path) -> bool:
    """Whether nothing was run, and nothing was written to it either."""
    return not canary.exists()
