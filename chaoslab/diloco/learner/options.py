"""Command line of a learner: its flags, its token, and its place among several hosts.

`program.main` uses them.
"""

import argparse
import os
from pathlib import Path

from chaoslab.diloco.learner.hosts.membership import Membership, membership
from chaoslab.diloco.learner.inner_steps import InnerSettings
from chaoslab.diloco.node.health import add_health_option
from chaoslab.diloco.wire.identity import read_token
from chaoslab.diloco.wire.tls import Tls, add_tls_options, tls_of


def parser() -> argparse.ArgumentParser:
    """The flags of `python -m chaoslab.diloco.learner`."""
    flags = argparse.ArgumentParser(
        prog="python -m chaoslab.diloco.learner",
        description="One learner of a Decoupled DiLoCo training.",
        epilog="example: python -m chaoslab.diloco.learner --syncer 127.0.0.1:4600 "
        "--name learner-0 --shard 0 --shards 4",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    flags.add_argument("--syncer", required=True, metavar="HOST:PORT", help="where to connect")
    flags.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="what it shows the syncer, which made it: NAME in the syncer's --tokens folder; "
        "needed without mutual TLS",
    )
    flags.add_argument("--name", default="learner-0", help="its name on the syncer's roster")
    flags.add_argument(
        "--incarnation", type=int, help="number of this process; default: one more than last"
    )
    flags.add_argument(
        "--directory", type=Path, help="for its checkpoints; a folder of its name by default"
    )
    flags.add_argument("--model", default="nano", help="nano, micro, mini or small")
    flags.add_argument("--task", help="package.module:make, in place of --model")
    flags.add_argument("--data", default="stdlib", help="stdlib, or a file, folder or glob")
    flags.add_argument("--shard", type=int, default=0, help="which part of the data is its own")
    flags.add_argument("--shards", type=int, default=1, help="into how many the data is cut")
    flags.add_argument("--seed", type=int, default=0, help="of parameters and order of data")
    flags.add_argument("--batch", type=int, default=8, help="sequences in one step")
    flags.add_argument("--sequence", type=int, default=128, help="tokens in one sequence")
    inner = InnerSettings()
    flags.add_argument("--lr", type=float, default=inner.lr, help="of AdamW, at its peak")
    flags.add_argument("--warmup-steps", type=int, default=inner.warmup_steps, help="to --lr")
    flags.add_argument("--decay-steps", type=int, default=inner.decay_steps, help="of the cosine")
    flags.add_argument("--final-share", type=float, default=inner.final_share, help="of --lr")
    flags.add_argument("--weight-decay", type=float, default=inner.weight_decay, help="of AdamW")
    flags.add_argument(
        "--step-time",
        type=float,
        metavar="S",
        help="s that each step takes at speed 1, as on a chip of its own; without it, as long as "
        "it takes here",
    )
    flags.add_argument(
        "--speed", type=float, default=1.0, help="of a slower chip: 0.82 of the full, by resting"
    )
    flags.add_argument("--save-every", type=float, default=10.0, help="s between checkpoints")
    flags.add_argument("--compilation-cache", type=Path, help="keeps compiled steps for next time")
    flags.add_argument(
        "--hosts", type=int, default=1, help="processes that this learner consists of, one per host"
    )
    flags.add_argument(
        "--host-index",
        type=int,
        help="which of them this is; without it, all of them are started here",
    )
    flags.add_argument(
        "--meeting",
        metavar="HOST:PORT",
        help="where the process of host 0 listens for the others; with --host-index",
    )
    flags.add_argument(
        "--host-timeout",
        type=float,
        default=5.0,
        metavar="S",
        help="a process of the learner that is silent for this long is lost, and so is the learner",
    )
    flags.add_argument(
        "--fully-sharded",
        type=int,
        metavar="N",
        help="devices that parameters and optimizer are divided over; default: all of several "
        "hosts, 1 of one host",
    )
    flags.add_argument(
        "--data-parallel",
        metavar="ADDRESS",
        help="average gradients with other learners in every step, as the settings `data_parallel` "
        "of the syncer say; own address at which they find this one. Needs one host",
    )
    flags.add_argument(
        "--test-hooks", action="store_true", help="accept test hooks on standard input"
    )
    add_health_option(flags)
    add_tls_options(flags)
    return flags


def membership_of(options: argparse.Namespace) -> Membership | None:
    """Place of this process among those of its learner; None for one process. ValueError."""
    if options.hosts == 1:
        return None
    if options.data_parallel is not None:
        raise ValueError("--data-parallel: needs a learner of one host; leave out --hosts")
    if options.host_index is None or options.meeting is None:
        raise ValueError("--host-index and --meeting: must be given together, for each host")
    return membership(
        hosts=options.hosts,
        index=options.host_index,
        meeting=options.meeting,
        timeout_s=options.host_timeout,
        environment=os.environ,
    )


def token_of(options: argparse.Namespace) -> str:
    """Token for the syncer; empty with TLS. ValueError or OSError says what to pass."""
    if isinstance(tls_of(options), Tls):
        return ""
    if options.token_file is None:
        raise ValueError(
            "--token-file: must be given without TLS, got none; pass the file "
            f"{options.name} of the syncer's tokens folder, or use mutual TLS"
        )
    return read_token(options.token_file)
