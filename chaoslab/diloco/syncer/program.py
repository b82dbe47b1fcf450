"""Program of the syncer: reads the command line, listens, and lets `Syncer` serve.

    python -m chaoslab.diloco.syncer --help

Signals and test hooks are handled here, what learners send in `syncer`.
"""

import signal
from collections.abc import Sequence

from chaoslab.core.payloads import NodeFields
from chaoslab.diloco.node.clocks import Clocks
from chaoslab.diloco.node.events import now_s, say
from chaoslab.diloco.node.health import HealthFile
from chaoslab.diloco.node.hooks import Hooks
from chaoslab.diloco.node.phases import Phases
from chaoslab.diloco.node.waits import run_now, sleep
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.syncer.disk_writes import retry_while_disk_full
from chaoslab.diloco.syncer.options import former_address, listen, parser, tokens_of
from chaoslab.diloco.syncer.store import SyncerStore
from chaoslab.diloco.syncer.syncer import ASKED, Syncer
from chaoslab.diloco.syncer.syncer_state import SyncerState
from chaoslab.diloco.syncer.work import Work
from chaoslab.diloco.wire.hub import Hub
from chaoslab.diloco.wire.tls import check_address, tls_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the syncer until training has ended; the exit code."""
    flags = parser()
    options = flags.parse_args(arguments)
    try:
        settings, tls = Settings.from_json(options.settings_json), tls_of(options)
        check_address(options.address, tls)
    except (OSError, ValueError) as error:
        flags.error(str(error))
    address_file = options.directory / "address"
    hub = Hub(
        former_address(address_file, options.address), tokens=tokens_of(options, settings), tls=tls
    )
    syncer_state = SyncerState(
        settings,
        SyncerStore(options.directory / "state", durable=not options.not_durable),
        snapshots=options.snapshots,
    )
    about: NodeFields = {
        "node": options.name, "learner": "", "incarnation": options.incarnation,
    }  # fmt: skip
    phases = Phases(say, about)
    work = Work(hub.arrivals.wake)

    def begun() -> Syncer:
        return Syncer(hub, syncer_state, work, emit=say, now=now_s, phases=phases)

    syncer = run_now(retry_while_disk_full(begun, say, sleep))
    syncer.policy.keeps_training = options.keep_training
    syncer.health = HealthFile(options.health_file)
    signal.signal(signal.SIGTERM, lambda *_: syncer.end(ASKED))
    hooks = Hooks()
    phases.register(hooks)
    hooks.on("clock", Clocks(say, about).apply_hook)
    if options.test_hooks:
        hooks.listen()
    address = listen(hub, address_file)
    try:
        run_now(syncer.run(address))
    finally:
        hub.stop()
        syncer_state.close()
    return 0
