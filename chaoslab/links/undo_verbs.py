"""Undo of what was done to links, what of links may be left, and what they can do here.

    clear_effects            what one injection put on a link
    enable_proxy             a link that refuses connections lets them in
    delete_proxy             a proxy of ours on a Toxiproxy server of somebody else's
    drop_rules close_bands   rules of the kernel for packets, by their comment or interface

A qdisc is known by an undo log alone: it bears no name of ours.
"""

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from chaoslab.core.errors import FleetError
from chaoslab.links import kernel, netem, netfilter, proxy_undo, toxiproxy_binary
from chaoslab.links.http_api import Endpoint, address_of
from chaoslab.links.packet_rules import INTERFACES, UNDO_BANDS, UNDO_DROPS, comments_of
from chaoslab.undo.facts import Facts, is_loopback, require, require_match
from chaoslab.undo.halt import find_runs
from chaoslab.undo.log import open_undos
from chaoslab.undo.verbs import (
    Examined,
    Healed,
    Leftover,
    Maintenance,
    UndoEntry,
    Verb,
    missing,
    ok,
)

_TOXIPROXY = "toxiproxy"
_INJECTION = re.compile(r"injection-\d+|standing")
_PROXY = re.compile(r"[\w-][\w.-]{0,120}")
_LABEL = "chaoslab:"
"""How the comment of every rule of ours begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyFacts(Facts):
    """A proxy, on a server of this machine or of the machine where the engine is."""

    api: str
    """host:port."""
    proxy: str
    injection: str = ""
    token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        host, _, port = self.api.rpartition(":")
        require(port.isdecimal() and 0 < int(port) < 2**16, f"{self.api!r} is no host:port")
        require(
            is_loopback(host) or host == _engine_host(),
            f"{self.api} is not on this machine, nor on that of DOCKER_HOST: nothing is sent there",
        )
        require_match(_PROXY, self.proxy, "proxy")

    @property
    def endpoint(self) -> Endpoint:
        """How its API is asked."""
        return Endpoint(address=self.api, token=self.token)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectFacts(ProxyFacts):
    """What one injection put on a proxy."""

    def __post_init__(self) -> None:
        ProxyFacts.__post_init__(self)
        require_match(_INJECTION, self.injection, "injection")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnProxyFacts(ProxyFacts):
    """A proxy of ours on a server that others use, too."""

    def __post_init__(self) -> None:
        ProxyFacts.__post_init__(self)
        require(self.proxy.startswith("chaoslab-"), f"the proxy {self.proxy!r} is not chaoslab's")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFacts(Facts):
    """Rules for packets that bear this comment."""

    tool: str
    comment: str

    def __post_init__(self) -> None:
        require(self.tool == netfilter.Iptables.tool, f"no tool for rules is called {self.tool!r}")
        require(
            comments_of(self.directory).fullmatch(self.comment) is not None,
            f"a rule with the comment {self.comment!r} is not one of this run",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BandFacts(Facts):
    """The queues on one interface."""

    interface: str

    def __post_init__(self) -> None:
        require(self.interface in INTERFACES, f"no run has queues on {self.interface!r}")


def _engine_host() -> str | None:
    """The address of the machine of DOCKER_HOST, as far as it is another one."""
    host = urlsplit(os.environ.get("DOCKER_HOST", "")).hostname
    try:
        return address_of(host) if host else None
    except OSError:
        return None


def _clear(facts: EffectFacts) -> Healed:
    """Take what one injection put on a link away; FleetError if the proxy refuses."""
    taken = proxy_undo.clear(facts.endpoint, facts.proxy, facts.injection)
    return Healed(actions=tuple(f"{name} on {facts.proxy}, taken away" for name in taken))


def _effects(facts: EffectFacts) -> tuple[str, ...]:
    found = proxy_undo.look(facts.endpoint, facts.proxy, facts.injection)
    return tuple(f"{name} on the link {facts.proxy}" for name in found)


def _enable(facts: ProxyFacts) -> Healed:
    """Let a link that refuses take connections again; FleetError if the proxy refuses."""
    was_off = proxy_undo.enable(facts.endpoint, facts.proxy)
    return Healed(actions=(f"{facts.proxy} was off, and is on again",) if was_off else ())


def _refusing(facts: ProxyFacts) -> tuple[str, ...]:
    is_off = proxy_undo.is_off(facts.endpoint, facts.proxy)
    return (f"the link {facts.proxy} that refuses",) if is_off else ()


def _delete_proxy(facts: OwnProxyFacts) -> Healed:
    """Delete a proxy of ours from a server of somebody else's; FleetError if that is silent."""
    proxy_undo.delete(facts.endpoint, facts.proxy)
    return Healed(actions=(f"{_proxy(facts)}, deleted",))


def _proxy(facts: OwnProxyFacts) -> str:
    return f"the proxy {facts.proxy} at {facts.api}"


def _drop_rules(facts: RuleFacts) -> Healed:
    """Take exactly these rules out of the kernel; FleetError if it refuses."""
    what = _rules(facts)
    netfilter.Iptables().remove(facts.comment)
    return Healed(actions=tuple(f"{one}, removed" for one in what))


def _rules(facts: RuleFacts) -> tuple[str, ...]:
    is_there = netfilter.Iptables().count(facts.comment) > 0
    return (f"rules of the kernel for packets ({facts.comment})",) if is_there else ()


def _close_bands(facts: BandFacts) -> Healed:
    """Take our queue off an interface; FleetError if the kernel refuses, or if it is not ours."""
    what = _bands(facts)
    netem.close_bands(facts.interface)
    return Healed(actions=tuple(f"{one}, removed" for one in what))


def _bands(facts: BandFacts) -> tuple[str, ...]:
    is_there = netem.has_bands(facts.interface)
    return (f"queues of the kernel for packets ({facts.interface})",) if is_there else ()


# ---------------------------------------------------------------- leftovers


def _unnamed_rules(runs_root: Path) -> Iterator[Leftover]:
    """Of iptables, those with our label that no book names; only root sees any."""
    if not kernel.may_administer_network():
        return
    named = {
        str(owed.facts.get("comment")) for run in find_runs(runs_root) for owed in _legible(run)
    }
    code, listed = kernel.ask(("iptables", "-S", "INPUT"))
    for line in listed.splitlines() if code == 0 else ():
        words = shlex.split(line)
        comment = next((word for word in words if word.startswith(_LABEL)), None)
        if comment is not None and comment not in named:
            yield Leftover(what=f"a rule for packets ({comment})", where="iptables, INPUT",
                          remedy=f"iptables -D {line.removeprefix('-A ')}")  # fmt: skip


def _legible(run: Path) -> tuple[UndoEntry, ...]:
    try:
        return open_undos(run)
    except FleetError:  # which `undo.leftovers` tells
        return ()


# ---------------------------------------------------------------- what this machine can do


def _diagnose() -> Iterator[Examined]:
    yield _namespaces()
    yield _toxiproxy()
    yield _packet_loss()
    yield _netem()


def _namespaces() -> Examined:
    """Where rules for packets are tried without touching anybody's."""
    why_not = kernel.why_no_namespace()
    if not why_not:
        return ok("namespaces", "a network of its own can be made to try rules for packets in")
    return missing("namespaces", f"rules for packets are tried in place, and taken back: {why_not}")


def _toxiproxy() -> Examined:
    server = toxiproxy_binary.find()
    if server is not None:
        return ok(_TOXIPROXY, str(server))
    remedy = "chaoslab doctor --fix installs it; links: embedded needs none"
    return missing(_TOXIPROXY, "no toxiproxy-server on PATH or in the cache", remedy)


def _packet_loss() -> Examined:
    """Tried with a rule on a port of our own, which goes with the trial."""
    can, how = netfilter.is_available()
    if can:
        return ok("packet loss", f"{how}, for network.loss")
    return missing("packet loss", f"network.loss is refused: {how}")


def _netem() -> Examined:
    """Likewise."""
    can, how = netem.is_available()
    if can:
        return ok("tc netem", "duplicated, reordered and corrupt packets")
    return missing("tc netem", f"no duplicated, reordered or corrupt packets: {how}")


def _install_toxiproxy() -> str:
    return f"installed {toxiproxy_binary.install()} (version {toxiproxy_binary.VERSION})"


MAINTENANCE = Maintenance(
    verbs={
        proxy_undo.CLEAR_EFFECTS: Verb(facts=EffectFacts, undo=_clear, left=_effects, lets_go=True),
        proxy_undo.ENABLE_PROXY: Verb(facts=ProxyFacts, undo=_enable, left=_refusing, lets_go=True),
        proxy_undo.DELETE_PROXY: Verb(
            facts=OwnProxyFacts, undo=_delete_proxy, left=lambda facts: (_proxy(facts),)
        ),
        UNDO_DROPS: Verb(facts=RuleFacts, undo=_drop_rules, left=_rules, lets_go=True),
        UNDO_BANDS: Verb(facts=BandFacts, undo=_close_bands, left=_bands),
    },
    leftovers=_unnamed_rules,
    diagnose=_diagnose,
    repairs={_TOXIPROXY: _install_toxiproxy},
)
