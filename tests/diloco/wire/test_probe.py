"""Round trips on a connection of their own: answered without a token, and again after a break."""

import queue
import socket
import threading
import time
from contextlib import closing, suppress

import pytest

from chaoslab.diloco.wire.hub import Hub
from chaoslab.diloco.wire.probe import Probe
from tests.diloco.known import TOKENS

_LIMIT_S = 60.0


def probing(address: str) -> "queue.Queue[float]":
    """What a probe of this address finds, ten times a second."""
    found: queue.Queue[float] = queue.Queue()
    Probe(address, found.put, tls=None, period_s=0.1).start()
    return found


def test_a_syncer_answers_whoever_pings_and_opens_no_session() -> None:
    hub = Hub("127.0.0.1:0", tokens=TOKENS)
    found = probing(hub.start())
    try:
        assert all(found.get(timeout=_LIMIT_S) > 0 for _ in range(3))
        assert not hub.arrivals.items
    finally:
        hub.stop()


@pytest.mark.deep
def test_a_delay_of_the_path_is_what_is_found_and_a_break_is_outlived() -> None:
    hub = Hub("127.0.0.1:0", tokens=TOKENS)
    host, _, port = hub.start().rpartition(":")
    with socket.create_server(("127.0.0.1", 0)) as relay:
        found = probing(f"127.0.0.1:{relay.getsockname()[1]}")
        try:
            for _ in range(2):
                learner, _ = relay.accept()
                with closing(learner), socket.create_connection((host, int(port))) as syncer:
                    for source, target, late_s in ((learner, syncer, 0.2), (syncer, learner, 0.0)):
                        threading.Thread(
                            target=_relay, args=(source, target, late_s), daemon=True
                        ).start()
                    rtt_s = min(found.get(timeout=_LIMIT_S) for _ in range(3))
                    assert 0.2 <= rtt_s < 2.0
                    learner.shutdown(socket.SHUT_RDWR)
        finally:
            hub.stop()


def test_what_is_no_http_2_gives_no_round_trip() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        found = probing(f"127.0.0.1:{other.getsockname()[1]}")
        for _ in range(2):  # it dials again
            end, _ = other.accept()
            with end:
                end.sendall(b"220 mail.example ESMTP\r\n" * 10)
                while end.recv(1 << 16):
                    pass
        assert found.empty()


def _relay(source: socket.socket, target: socket.socket, late_s: float) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            time.sleep(late_s)
            target.sendall(data)
