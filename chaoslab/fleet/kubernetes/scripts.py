"""Shell scripts that run in pods, whole and constant: what varies comes as their arguments.

    ENTRY                    starts the node's program, with its private files and hooks in place
                             and counts the pods of a node where the cluster replaces them, and
                             tells a host of a learner of several its number and their meeting
    SIGNAL_ALL, SIGNAL_MAIN  + a signal's name without SIG
    KILL_ALL                 + KILL; prints a word if it saw the main process dead
    LISTENS                  + a port in hexadecimal, four digits: whether a process listens there
    STAT                     prints /proc/PID/stat of the main process
    TELL                     writes its standard input to the hooks
    CPU_COUNT                prints what its cgroup says of CPU time (`cpu_meter`)
    RELIEVE                  ends what fills the memory, if anything does (`memory_filler`)

The paths are those of `manifests.CONTROL`.
"""

from typing import Final

INCARNATION: Final = "@incarnation@"
"""Placeholder of the incarnation in a command, where ENTRY has to count it."""
HOST: Final = "@host@"
"""A word of a command: the number of this host, which is that of its pod in the Job."""
MEETING: Final = "@meeting@"
"""A word of a command: where the hosts meet. By $CHAOSLAB_MEETING the others reach the pod of host
0, which itself listens on the same port of its own address, $CHAOSLAB_ADDRESS."""
ENTRY: Final = (
    "/bin/sh",
    "-c",
    (
        "trap '' USR1 USR2 HUP; umask 077\n"
        "if [ -d /run/secrets/chaoslab ]; then mkdir /run/chaoslab/private"
        " && cp -L /run/secrets/chaoslab/* /run/chaoslab/private/"
        " && chmod 600 /run/chaoslab/private/* || exit 125; fi\n"
        "mkfifo /run/chaoslab/hooks && umask 022 && echo $$ >/run/chaoslab/pid || exit 125\n"
        'if [ -n "$CHAOSLAB_INCARNATION" ]; then\n'
        "  ran=/var/lib/chaoslab/node/.ran\n"
        "  now=$(cat $ran 2>/dev/null || echo 0); now=$((now + 1))\n"
        '  [ "$now" -ge "$CHAOSLAB_INCARNATION" ] || now=$CHAOSLAB_INCARNATION\n'
        '  echo "$now" >$ran.new && mv $ran.new $ran || exit 125\n'
        "  for word do\n"
        "    case $word in *@incarnation@*)"
        ' word="${word%%@incarnation@*}$now${word#*@incarnation@}";; esac\n'
        '    set -- "$@" "$word"; shift\n'
        "  done\n"
        "fi\n"
        'if [ -n "$CHAOSLAB_MEETING" ]; then\n'
        "  meeting=$CHAOSLAB_MEETING\n"
        '  if [ "$JOB_COMPLETION_INDEX" = 0 ]; then\n'
        "    case $CHAOSLAB_ADDRESS in *:*) CHAOSLAB_ADDRESS=[$CHAOSLAB_ADDRESS];; esac\n"
        "    meeting=$CHAOSLAB_ADDRESS:${meeting##*:}\n"
        "  fi\n"
        "  for word do\n"
        "    case $word in @host@) word=$JOB_COMPLETION_INDEX;; @meeting@) word=$meeting;; esac\n"
        '    set -- "$@" "$word"; shift\n'
        "  done\n"
        "fi\n"
        'if [ -n "$CHAOSLAB_HEARS" ]; then exec "$@" <>/run/chaoslab/hooks; fi\n'
        'exec "$@" </dev/null'
    ),
    "node",
)
"""The hooks do nothing to a program until it takes them up, as with a local node."""
SIGNAL_ALL: Final = ("/bin/sh", "-c", 'kill -s "$1" -- -1', "kill")
"""Command that signals all processes of the pod's user, but the shell itself."""
KILL_ALL: Final = (
    "/bin/sh",
    "-c",
    (
        'main=$(cat /run/chaoslab/pid); kill -s "$1" -- -1 || exit; looks=0\n'
        '[ -n "$main" ] || exit 0\n'
        "while [ $looks -lt 1000 ]; do\n"
        "  read -r stat 2>/dev/null </proc/$main/stat || stat=') X'\n"
        "  case ${stat##*) } in [XZ]*) echo dead; exit;; esac\n"
        "  looks=$((looks + 1))\n"
        "done"
    ),
    "kill",
)
"""Takes some tenths of a second. The runtime ends this shell, too, soon after the node."""
SIGNAL_MAIN: Final = ("/bin/sh", "-c", 'kill -s "$1" -- "$(cat /run/chaoslab/pid)"', "kill")
LISTENS: Final = (
    "/bin/sh", "-c", 'grep -q ":$1 0*:0000 0A" /proc/net/tcp /proc/net/tcp6', "listens",
)  # fmt: skip
"""Checks the kernel's tables, in which a connection would count as refused."""
STAT: Final = ("/bin/sh", "-c", 'cat "/proc/$(cat /run/chaoslab/pid)/stat"')
CPU_COUNT: Final = (
    "/bin/sh",
    "-c",
    (
        "cd /sys/fs/cgroup && read -r uptime _ </proc/uptime && echo uptime $uptime\n"
        "[ -f cpu.stat ] && exec cat cpu.stat\n"
        "cat cpu/cpu.stat && echo usage_time $(cat cpuacct/cpuacct.usage)"
    ),
)
RELIEVE: Final = (
    "/bin/sh",
    "-c",
    'cd /run/chaoslab && [ ! -f filler ] || { kill -s TERM -- "$(cat filler)"; rm -f filler; }',
)
TELL: Final = ("/bin/sh", "-c", "timeout 10 cat >/run/chaoslab/hooks")
