"""Supervisor of a learner of several hosts: one process for each on this machine, as one node.

    harness ─ signals, test hooks ─► supervisor ─┬─► process of host 0 ══► syncer
                                                 └─► process of host 1, 2, …  (`mirrored`)
    one of them ends by an error or a signal ─► the others are killed ─► it ends in the same way

`--hosts 2` without `--host-index` starts it. The processes have the command line of the supervisor,
a number each, and a secret in their environment; the kernel kills them when the supervisor dies.
Signals go to the process of host 0, and so do test hooks, except

    {"do": "host", "index": 1, "signal": "SIGKILL"}    ends the process of a host
    {"do": "chip", "index": 1}                         is carried out by that process

Imports neither JAX nor anything else that takes long.
"""

import argparse
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path

from chaoslab.core.payloads import HostLost, HostStarted, LifeFields
from chaoslab.diloco.learner.hosts.membership import PEER_LOST, SECRET, SUPERVISOR
from chaoslab.diloco.node.ending import end_by
from chaoslab.diloco.node.events import say
from chaoslab.diloco.node.files import next_incarnation

_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_HOOKS = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that a process ignores until its program handles them."""
_END_S = 5.0
"""Time in which the other processes end once the learner has left."""
_NOTICED_S = 0.5
"""Time in which the end of a process shows, after another one has noticed it."""
_BLINK_S = 0.01
"""Polling interval of both."""


def supervised(arguments: Sequence[str] | None = None) -> int | None:
    """Run the processes of a learner of several hosts; its exit code, or None for any other one.

    `arguments`: None for those of this process.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    flags = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    flags.add_argument("--hosts", type=int, default=1)
    flags.add_argument("--host-index", type=int)
    flags.add_argument("--name", default="learner-0")
    flags.add_argument("--directory", type=Path)
    flags.add_argument("--incarnation", type=int)
    flags.add_argument("--test-hooks", action="store_true")
    options, _ = flags.parse_known_args(arguments)
    if options.hosts < 2 or options.host_index is not None:
        return None
    incarnation = next_incarnation(options.directory or Path(options.name), options.incarnation)
    return Supervisor(
        [*arguments, "--incarnation", str(incarnation)],
        hosts=options.hosts,
        whose={"learner": options.name, "incarnation": incarnation},
        hears=options.test_hooks,
    ).run()


class Supervisor:
    """The processes of one learner. `run` starts them and returns, or dies, as the learner ends."""

    def __init__(
        self, arguments: Sequence[str], *, hosts: int, whose: LifeFields, hears: bool
    ) -> None:
        """`whose`: learner and incarnation. `hears`: test hooks come on standard input."""
        self._whose, self._hears = whose, hears
        self._asked: dict[int, int] = {}
        """Signals that test hooks asked for, by host."""
        for hook in _HOOKS:
            signal.signal(hook, signal.SIG_IGN)  # so in the processes, until they handle them
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        environment = {
            **os.environ,
            SECRET: secrets.token_hex(32),
            SUPERVISOR: str(os.getpid()),
        }
        meeting = f"@chaoslab-{secrets.token_hex(8)}"
        self._processes = [
            subprocess.Popen(
                [*_program(), *arguments, "--host-index", str(host), "--meeting", meeting],
                stdin=subprocess.PIPE if hears else subprocess.DEVNULL,
                env=environment,
            )
            for host in range(hosts)
        ]

    def run(self) -> int:
        """Exit code of the learner; ends by the signal by which one of its processes did."""
        for host, process in enumerate(self._processes):
            say(HostStarted(**self._whose, host=host, pid=process.pid))
        for number in _PASSED_ON:
            signal.signal(number, lambda received, _: self._send(0, received))
        if self._hears:
            threading.Thread(target=self._hear, name="hooks", daemon=True).start()
        lost = self._first_lost()
        if lost is None:
            return 0
        self._end_all()
        return self._report(lost)

    # ---------------------------------------------------------------- ends

    def _first_lost(self) -> int | None:
        """Host of the first process that ends by an error or a signal; None once all have left."""
        while True:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            self._poll()
            _reap_orphans({process.pid for process in self._processes})
            if self._processes[0].returncode == 0:
                self._await_others()
                return None
            if self._failed:
                return self._cause()

    def _poll(self) -> bool:
        """Take note of exits; whether any process still runs."""
        return None in [process.poll() for process in self._processes]

    def _await_others(self) -> None:
        """Let the other processes end, now that the learner has left; kill those that do not."""
        until_s = time.monotonic() + _END_S
        while self._poll() and time.monotonic() < until_s:
            time.sleep(_BLINK_S)
        self._end_all()

    @property
    def _failed(self) -> list[int]:
        return [host for host, process in enumerate(self._processes) if process.returncode]

    def _cause(self) -> int:
        """Host whose process ended first: the kernel may show its end after that of another one,
        which noticed it.
        """
        until_s = time.monotonic() + _NOTICED_S
        while all(map(self._is_consequence, self._failed)) and time.monotonic() < until_s:
            time.sleep(_BLINK_S)
            self._poll()
        return min(self._failed, key=self._is_consequence)

    def _is_consequence(self, host: int) -> bool:
        """Whether a process may have ended because another had."""
        code = self._processes[host].returncode
        return self._asked.get(host) != -code and code in (PEER_LOST, -signal.SIGABRT)

    def _end_all(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()

    def _report(self, lost: int) -> int:
        """Say which host was lost and how, then end in the same way."""
        code = self._processes[lost].returncode
        if code == PEER_LOST and lost:  # it listens to host 0 alone
            self._say_lost(0, "no heartbeat")
        elif code < 0:
            self._say_lost(lost, f"ended by {signal.Signals(-code).name}", -code)
        elif lost:
            self._say_lost(lost, f"exit code {code}")
        if code < 0:
            if -code != signal.SIGKILL:
                signal.signal(-code, signal.SIG_DFL)
            end_by(-code)
        return code

    def _send(self, host: int, number: int) -> None:
        """Signal the process of a host, if it runs. Reaps none, as `Popen.send_signal` does."""
        process = self._processes[host]
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)

    def _say_lost(self, host: int, reason: str, number: int | None = None) -> None:
        name = None if number is None else signal.Signals(number).name
        sys.stdout.write("\n")  # the process of host 0 may have died within a line
        say(HostLost(**self._whose, host=host, reason=reason, signal=name))

    # ---------------------------------------------------------------- test hooks

    def _hear(self) -> None:
        """Pass the lines of standard input on; at its end, end that of the processes."""
        # without a buffer, whose lock this thread would hold when the interpreter ends
        with open(0, "rb", buffering=0, closefd=False) as lines:
            for line in lines:
                with suppress(OSError):  # a process that has ended takes no hook
                    self._pass_on(line)
        for process in self._processes:
            if process.stdin is not None:
                process.stdin.close()

    def _pass_on(self, line: bytes) -> None:
        host, number, is_own = _request(line, len(self._processes))
        if number is not None:
            self._asked[host] = number
        if is_own and number is not None:
            self._send(host, number)
            return
        pipe = self._processes[host].stdin
        if pipe is not None:
            pipe.write(line)
            pipe.flush()


def _request(line: bytes, hosts: int) -> tuple[int, int | None, bool]:
    """Host that a line is for, signal by which that ends, and whether the supervisor sends it.

    Whatever is no request for a host is for host 0, which reports what it does not know.
    """
    try:
        facts = json.loads(line)
        do, host = str(facts["do"]), int(facts["index"])
        number = signal.SIGABRT if do == "chip" else signal.Signals[str(facts["signal"])]
    except (ValueError, KeyError, TypeError):
        return 0, None, False
    if do not in ("host", "chip") or not 0 <= host < hosts:
        return 0, None, False
    return host, number, do == "host"


def _reap_orphans(processes: Collection[int]) -> None:
    """Reap children that are not those `processes`: what these had started and left behind."""
    how = os.WEXITED | os.WNOWAIT | os.WNOHANG
    with suppress(ChildProcessError):  # there are no children any more
        while (ended := os.waitid(os.P_ALL, 0, how)) and ended.si_pid not in processes:
            os.waitpid(ended.si_pid, 0)


def _program() -> list[str]:
    """Command line of this program without its arguments: a module, as `python -m` runs it."""
    spec = sys.modules["__main__"].__spec__
    if spec is None:
        return [sys.executable, sys.argv[0]]
    return [sys.executable, "-m", spec.name.removesuffix(".__main__")]
