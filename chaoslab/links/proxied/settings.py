"""The embedded proxy as a plan names it; its client is imported when links are made."""

from dataclasses import dataclass
from functools import partial

from chaoslab.links.settings import LinksFactory


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """The proxy that comes with chaoslab."""

    def factory(self, seed: int) -> LinksFactory:
        """One proxy for each learner, in one process."""
        from chaoslab.links.proxied.embedded import EmbeddedLinks  # noqa: PLC0415  # imported when used

        return partial(EmbeddedLinks, seed=seed)
