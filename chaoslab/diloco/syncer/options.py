"""Command line of the syncer: its flags, its tokens, and the address that it listens on.

`program.main` uses them.
"""

import argparse
import time
from pathlib import Path

from chaoslab.diloco.node.files import atomic_write, make_folder
from chaoslab.diloco.node.health import add_health_option
from chaoslab.diloco.settings import Settings
from chaoslab.diloco.wire.hub import Hub
from chaoslab.diloco.wire.identity import Tokens
from chaoslab.diloco.wire.tls import Tls, add_tls_options, tls_of

_PATIENCE_S = 20.0
_AGAIN_S = 0.2


def parser() -> argparse.ArgumentParser:
    """The flags of `python -m chaoslab.diloco.syncer`."""
    flags = argparse.ArgumentParser(
        prog="python -m chaoslab.diloco.syncer",
        description="The syncer of a Decoupled DiLoCo training. Needs no accelerator.",
        epilog="example: python -m chaoslab.diloco.syncer --directory /tmp/syncer --settings-json "
        '\'{"learners": ["learner-0", "learner-1"], "stop_rounds": 200}\'',
    )
    flags.add_argument(
        "--address", default="127.0.0.1:0", help="where to listen; port 0 takes a free one"
    )
    flags.add_argument(
        "--directory",
        type=Path,
        required=True,
        help="its state; training goes on from what is here",
    )
    flags.add_argument(
        "--tokens",
        type=Path,
        metavar="FOLDER",
        help="a file for each learner, made if missing: what it must show; tokens/ in --directory "
        "by default; unused with mutual TLS",
    )
    flags.add_argument(
        "--settings-json", default="{}", help="the rules of the training, see diloco/settings.py"
    )
    flags.add_argument(
        "--snapshots", type=Path, help="where to put global parameters for evaluation"
    )
    flags.add_argument(
        "--not-durable", action="store_true", help="do not wait for the disk after each round"
    )
    flags.add_argument(
        "--keep-training", action="store_true", help="when a stop rule is met, go on until SIGTERM"
    )
    flags.add_argument("--name", default="syncer", help="for the fleet that starts it")
    flags.add_argument("--incarnation", type=int, default=1, help="for the fleet that starts it")
    flags.add_argument(
        "--test-hooks", action="store_true", help="accept test hooks on standard input"
    )
    add_health_option(flags)
    add_tls_options(flags)
    return flags


def tokens_of(options: argparse.Namespace, settings: Settings) -> Tokens | None:
    """Tokens of the learners on the roster; None where certificates authenticate them."""
    if isinstance(tls_of(options), Tls):
        return None
    return Tokens.load_or_create(options.tokens or options.directory / "tokens", settings.learners)


def former_address(file: Path, asked: str) -> str:
    """Address to listen on: that of an earlier process if the port asked for is 0."""
    make_folder(file.parent, durable=True)
    known = file.read_text() if file.exists() else ""
    return known if known and asked.endswith(":0") else asked


def listen(hub: Hub, file: Path) -> str:
    """Begin to accept streams and write the address to `file`; return the address.

    The former port may be in use for a moment by an outgoing connection. OSError if it is taken for
    longer than `_PATIENCE_S`.
    """
    until_s = time.monotonic() + _PATIENCE_S
    while True:
        try:
            address = hub.start()
            break
        except OSError:
            if not file.exists() or time.monotonic() >= until_s:
                raise
            time.sleep(_AGAIN_S)
    with atomic_write(file, durable=True) as written:
        written.append(address.encode())
    return address
