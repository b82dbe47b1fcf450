"""Program of the learner: trains, pushes when asked, adopts what is published.

One process for each host of the learner, usually one: this is the program of all (`hosts`), and
the first of them has the training thread (`training_thread`). A step runs on all their devices
(`inner_steps`). Run it alone by `python -m chaoslab.diloco.learner --help`.
"""

import argparse
import signal
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax

from chaoslab.core.events import Json
from chaoslab.core.link_meter import PING_S
from chaoslab.core.payloads import LearnerStarted, LifeFields, NodeFields
from chaoslab.diloco.learner.checkpoints import LearnerStore
from chaoslab.diloco.learner.data_parallel import DataParallel
from chaoslab.diloco.learner.group import Group
from chaoslab.diloco.learner.hosts.meeting import MeetingFailed
from chaoslab.diloco.learner.hosts.membership import PEER_LOST
from chaoslab.diloco.learner.hosts.supervisor import supervised
from chaoslab.diloco.learner.inner_steps import Inner, InnerSettings
from chaoslab.diloco.learner.joining import JoinRefused
from chaoslab.diloco.learner.link import Ambient
from chaoslab.diloco.learner.messenger import Messenger
from chaoslab.diloco.learner.mirrored import Leader
from chaoslab.diloco.learner.options import membership_of, parser, token_of
from chaoslab.diloco.learner.pace import Pace
from chaoslab.diloco.learner.payloads import ArrayPayloads
from chaoslab.diloco.learner.replica import Replica, Steps
from chaoslab.diloco.learner.tampering import Tampering
from chaoslab.diloco.learner.training_thread import Learner, Shard
from chaoslab.diloco.model.compilation import enable_compilation_cache
from chaoslab.diloco.model.data import DataError
from chaoslab.diloco.model.fragments import fingerprint
from chaoslab.diloco.model.load import load
from chaoslab.diloco.model.task import TaskError
from chaoslab.diloco.node.accelerators import prepare_compiler
from chaoslab.diloco.node.clocks import Clocks
from chaoslab.diloco.node.ending import end_by
from chaoslab.diloco.node.events import say
from chaoslab.diloco.node.files import next_incarnation
from chaoslab.diloco.node.health import HealthFile
from chaoslab.diloco.node.hooks import Hooks
from chaoslab.diloco.node.phases import Phases
from chaoslab.diloco.node.waits import run_now
from chaoslab.diloco.wire.connection import Connection
from chaoslab.diloco.wire.probe import Probe
from chaoslab.diloco.wire.tls import check_address, tls_of


def main(arguments: Sequence[str] | None = None, *, inner: type[Inner] | None = None) -> int:
    """Run one learner; exit code 0 at the end of training, 3 if it was refused.

    `inner`: a subclass of `Inner`, for a learner with an optimizer of its own. A learner of several
    hosts ends with code 75, or as one of its processes did, if it lost one of them or never met it.
    """
    if (code := supervised(arguments)) is not None:
        return code
    prepare_compiler()
    flags = parser()
    options = flags.parse_args(arguments)
    try:
        check_address(options.syncer, tls_of(options))
        token_of(options)
        pace = Pace(step_time_s=options.step_time, speed=options.speed)
        own = membership_of(options)
    except (OSError, ValueError) as error:
        flags.error(str(error))
    options.directory = options.directory or Path(options.name)
    if own is None or own.is_first:
        options.incarnation = next_incarnation(options.directory, options.incarnation)

    whose: LifeFields = {"learner": options.name, "incarnation": options.incarnation}
    hooks = Hooks()
    hooks.on("chip", _fail_chip)
    try:
        group = None if own is None else Group(own, whose)
    except MeetingFailed as error:
        print(f"{options.name}: {error}", file=sys.stderr)  # noqa: T201  # for people
        return PEER_LOST
    try:
        is_split = options.data_parallel is not None
        steps = inner_of(options, inner or Inner, spans_hosts=group is not None, is_split=is_split)
    except (TaskError, DataError, ValueError) as error:
        flags.error(str(error))
    if group is None:
        return _train(options, whose, steps, steps, pace, hooks)
    if group.is_first:
        with group.lead(steps) as leader:
            return _train(options, whose, steps, leader, pace, hooks)
    if options.test_hooks:
        hooks.listen()
    group.follow(steps)
    return 0


def _train(
    options: argparse.Namespace,
    whose: LifeFields,
    inner: Inner,
    steps: Steps[Any],
    pace: Pace,
    hooks: Hooks,
) -> int:
    """Run the training thread here; `steps`: the functions of `inner`, on all hosts."""
    task, tls, token = inner.task, tls_of(options), token_of(options)
    about: NodeFields = {"node": "", **whose}
    phases, tampering = Phases(say, about), Tampering(say, whose)
    store = LearnerStore(
        options.directory / "checkpoints",
        whose,
        fingerprint=fingerprint(inner.specs),
        moments_digest=inner.moments_digest,
        emit=say,
    )
    messenger = Messenger(
        lambda: Connection(options.syncer, token=token, tls=tls),
        whose=whose,
        payloads=ArrayPayloads(inner.specs, tampering),
        emit=say,
        probe=lambda probed: Probe(options.syncer, probed, tls=tls, period_s=PING_S).start(),
        ambient=Ambient.of_process(whose, say, phases),
    )
    parallel = None
    if options.data_parallel is not None:
        parallel = DataParallel(inner, options.data_parallel, cache=options.compilation_cache)
    learner = Learner(
        Replica(steps, task.tokens_per_batch, pace, seed=options.seed, parallel=parallel),
        messenger,
        store=store,
        shard=Shard(
            options.shard, partial(task.batches, options.shard, options.shards, options.seed)
        ),
        save_every_s=options.save_every,
        emit=HealthFile(options.health_file).touched_by(say),
        parallel=parallel,
    )
    learner.install_signal_handlers()
    if isinstance(steps, Leader):
        steps.without_hang = learner.wedge.postponed
    phases.register(hooks)
    hooks.on("clock", Clocks(say, about).apply_hook)
    hooks.on("pace", pace.apply_pace_hook)
    hooks.on("slow", pace.apply_slow_hook)
    hooks.on("updates", tampering.apply_hook)
    hooks.on("disk", store.apply_hook)
    if options.test_hooks:
        hooks.listen()
    started = LearnerStarted(
        **whose,
        devices=len(inner.devices),
        platform=inner.devices[0].platform,
        parameters=inner.parameters,
    )
    say(started)
    messenger.start()
    try:
        run_now(learner.run())
    except JoinRefused as refused:
        print(f"{options.name} was refused: {refused}", file=sys.stderr)  # noqa: T201  # for people
        return refused.exit_code
    return 0


def inner_of(
    options: argparse.Namespace,
    inner: type[Inner] = Inner,
    *,
    spans_hosts: bool = False,
    is_split: bool = False,
) -> Inner:
    """The functions of the devices, for the task that the options name.

    `is_split`: as of `Inner`. TaskError, DataError or ValueError if there can be none.
    """
    task = load(
        options.task or options.model,
        data=options.data,
        batch=options.batch,
        sequence=options.sequence,
    )
    cache: Path | None = options.compilation_cache
    if cache is not None:
        enable_compilation_cache(cache)
    devices = jax.devices() if spans_hosts else jax.local_devices()
    return inner(
        task,
        InnerSettings(
            lr=options.lr,
            warmup_steps=options.warmup_steps,
            decay_steps=options.decay_steps,
            final_share=options.final_share,
            weight_decay=options.weight_decay,
        ),
        devices=devices,
        fully_sharded=options.fully_sharded or (len(devices) if spans_hosts else 1),
        executables=cache and cache / "executables",
        is_split=is_split,
    )


def _fail_chip(facts: Mapping[str, Json]) -> None:
    """Test hook: end this process as a device runtime does whose chip has failed."""
    if facts:
        end_by(signal.SIGABRT)
