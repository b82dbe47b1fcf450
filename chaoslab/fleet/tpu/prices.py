"""Prices of chips, and estimates made of them: always with their source and date.

A price is in USD per chip and hour. It is an estimate: discounts, disks, traffic and the machine of
the syncer are not in it, and spot prices change every month. The keys `prices` of an inventory
replace it.
"""

from collections.abc import Mapping
from typing import Final

from chaoslab.core.lazy_dataclass import dataclass

SOURCE: Final = "skypilot-catalog v8, gcp/vms.csv at 006059e (Google's list prices)"
READ_ON: Final = "2026-11-22"

_LISTED: Final[Mapping[str, Mapping[str, tuple[float, float]]]] = {
    "v5e": {
        "asia-east1": (1.38948, 0.55579),
        "asia-northeast1": (1.54104, 0.42440),
        "asia-southeast1": (1.56, 0.78),
        "europe-north1": (1.32132, 0.66066),
        "europe-west1": (1.32132, 0.52853),
        "europe-west3": (1.416, 0.38997),
        "europe-west4": (1.56, 0.44498),
        "northamerica-northeast1": (1.32132, 0.36389),
        "southamerica-west1": (1.716, 0.47259),
        "us-central1": (1.2, 0.24493),
        "us-east1": (1.2, 0.24493),
        "us-east4": (1.2, 0.6),
        "us-east5": (1.2, 0.6),
        "us-south1": (1.416, 0.5664),
        "us-west1": (1.2, 0.24493),
        "us-west4": (1.2, 0.48),
    },
    "v5p": {
        "europe-west1": (4.45946, 1.78378),
        "europe-west4": (4.2525, 1.34849),
        "us-central1": (4.2, 0.8357),
        "us-east1": (4.2, 0.8357),
        "us-east5": (4.2, 1.68),
        "us-south1": (4.779, 1.31614),
    },
    "v6e": {
        "asia-northeast1": (3.24, 0.94352),
        "asia-south1": (3.24, 2.27),
        "asia-southeast1": (2.97, 0.36292),
        "europe-west4": (2.97, 1.03748),
        "us-central1": (2.7, 0.54421),
        "us-east1": (2.7, 0.54421),
        "us-east4": (2.7, 0.57766),
        "us-east5": (2.7, 1.215),
        "us-south1": (2.7, 1.35),
        "us-west1": (2.7, 0.54421),
    },
}
"""By generation and region: on demand, spot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """USD for a chip and an hour, and where that is from."""

    usd_per_chip_hour: float
    source: str
    date: str
    """When it was read; empty for a price of the inventory."""


def price(generation: str, zone: str, *, is_spot: bool, own: Mapping[str, float]) -> Price | None:
    """The price of a chip in a zone; `own` prices, by generation, come first; None: unknown."""
    if generation in own:
        return Price(usd_per_chip_hour=own[generation], source="prices of the inventory", date="")
    listed = _LISTED.get(generation, {}).get(region_of(zone))
    if listed is None:
        return None
    return Price(usd_per_chip_hour=listed[is_spot], source=SOURCE, date=READ_ON)


def region_of(zone: str) -> str:
    """us-east5 for us-east5-b."""
    return zone.rpartition("-")[0]
