"""Shell scripts that run in pods, whole and constant: what varies comes as their arguments.

    ENTRY                    starts the node's program, with its private files and hooks in place
    SIGNAL_ALL, SIGNAL_MAIN  + a signal's name without SIG
    STAT                     prints /proc/PID/stat of the main process
    TELL                     writes its standard input to the hooks

The paths are those of `manifests.CONTROL`.
"""

from typing import Final

ENTRY: Final = (
    "/bin/sh",
    "-c",
    (
        "trap '' USR1 USR2 HUP; umask 077\n"
        "if [ -d /run/secrets/chaoslab ]; then mkdir /run/chaoslab/private"
        " && cp -L /run/secrets/chaoslab/* /run/chaoslab/private/"
        " && chmod 600 /run/chaoslab/private/* || exit 125; fi\n"
        "mkfifo /run/chaoslab/hooks && umask 022 && echo $$ >/run/chaoslab/pid || exit 125\n"
        'if [ -n "$CHAOSLAB_HEARS" ]; then exec "$@" <>/run/chaoslab/hooks; fi\n'
        'exec "$@" </dev/null'
    ),
    "node",
)
"""The hooks do nothing to a program until it takes them up, as with a local node."""
SIGNAL_ALL: Final = ("/bin/sh", "-c", 'kill -s "$1" -- -1', "kill")
"""To all processes of the pod's user, but the shell itself."""
SIGNAL_MAIN: Final = ("/bin/sh", "-c", 'kill -s "$1" -- "$(cat /run/chaoslab/pid)"', "kill")
STAT: Final = ("/bin/sh", "-c", 'cat "/proc/$(cat /run/chaoslab/pid)/stat"')
TELL: Final = ("/bin/sh", "-c", "timeout 10 cat >/run/chaoslab/hooks")
