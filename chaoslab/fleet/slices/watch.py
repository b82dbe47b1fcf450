"""Watch of slices: asks the provider for its states on a thread of its own.

Provider.look, every so often ─► queue ─► news: reports, in order
└ refused: UNKNOWN for all, once; any other error is raised by `news`

While a change that was asked for is not seen yet, it asks every second.
"""

import queue
import threading
from collections.abc import Iterator, Sequence
from typing import Final

from chaoslab.core.events import Observation
from chaoslab.core.payloads import ProviderReported
from chaoslab.fleet.provider import Condition, Provider, ProviderError, SliceReport

_HURRIED_S: Final = 1.0


class SliceWatch:
    """States of all slices of a provider, from its start until `close`."""

    def __init__(self, provider: Provider, *, every_s: float) -> None:
        """ProviderError if it cannot be asked now. Nothing is asked again before `start`."""
        self._provider, self._every_s = provider, every_s
        self.first = tuple(provider.look())
        self._heard: queue.SimpleQueue[Sequence[SliceReport] | Exception] = queue.SimpleQueue()
        self._is_closed = self._is_awaited = False
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="slice watch", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def close(self) -> None:
        """End; a call that is on its way is waited for."""
        self._is_closed = True
        self._woken.set()
        if self._thread.ident is not None:
            self._thread.join()

    def await_change(self, is_awaited: bool, /) -> None:
        """Whether a change is waited for: then the provider is asked at once, and every second."""
        if is_awaited and not self._is_awaited:
            self._woken.set()
        self._is_awaited = is_awaited

    def news(self) -> Iterator[SliceReport]:
        """Reports since the last call, in order; what was no refusal of the provider is raised."""
        while not self._heard.empty():
            heard = self._heard.get_nowait()
            if isinstance(heard, Exception):
                raise heard
            yield from heard

    def _watch(self) -> None:
        is_refused = False
        while True:
            self._woken.wait(min(self._every_s, _HURRIED_S) if self._is_awaited else self._every_s)
            self._woken.clear()
            if self._is_closed:
                return
            try:
                self._heard.put(self._provider.look())
                is_refused = False
            except ProviderError as error:
                if not is_refused:
                    self._heard.put(tuple(self._unknown(str(error))))
                is_refused = True
            except Exception as error:  # noqa: BLE001 - `news` raises it on the fleet's thread
                self._heard.put(error)
                return

    def _unknown(self, why: str) -> Iterator[SliceReport]:
        for name in self._provider.nodes:
            yield SliceReport(node=name, condition=Condition.UNKNOWN, detail=why)


def reported(report: SliceReport) -> Observation:
    """Report of the provider, for the record."""
    return Observation.of(
        report.node,
        ProviderReported(
            node=report.node,
            condition=report.condition.value,
            resource=report.resource,
            state=report.state,
            health=report.health,
            request=report.request,
            detail=report.detail,
            is_by_us=report.is_gone_by_us,
        ),
    )
