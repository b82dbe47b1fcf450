"""Toxics are read strictly: what Toxiproxy would take for something else is refused, with help."""

from collections.abc import Mapping

import pytest

from chaoslab.links.proxy.stages import Cut, Delay, Freeze, Limit, Lose, Pace, Stage
from chaoslab.links.proxy.toxics import KINDS, Json, Refused, changed, read_toxic


def toxic(kind: str, **attributes: Json) -> dict[str, Json]:
    return {"type": kind, "attributes": attributes}


@pytest.mark.parametrize(
    "body",
    [
        toxic("latncy"),
        toxic("latency", latncy=1),
        toxic("latency", latency=-1),
        toxic("latency", latency="80"),
        toxic("latency", latency=True),
        toxic("latency", latency=10, jitter=11),
        toxic("latency", shape="parteo"),
        toxic("bandwidth", rate=-1),
        toxic("bandwidth", per="proxy"),
        toxic("slicer", average_size=0),
        toxic("slicer", average_size=10.5),
        toxic("slicer", average_size=10, size_variation=10),
        toxic("limit_data", bytes=0),
        toxic("freeze", rate=1),
        {**toxic("latency"), "stream": "up"},
        {**toxic("latency"), "toxicity": 1.5},
        {**toxic("latency"), "toxicity": True},
        {**toxic("latency"), "name": "a/b"},
        {**toxic("latency"), "colour": 1},
        {"type": "latency", "attributes": [1]},
        {},
    ],
)
def test_what_nobody_would_understand_is_refused(body: Mapping[str, Json]) -> None:
    with pytest.raises(Refused) as refused:
        read_toxic(body)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("body", "stage"),
    [
        (toxic("latency", latency=1.5), Delay),
        (toxic("bandwidth", rate=0.5), Pace),
        (toxic("bandwidth", rate=0), Freeze),
        (toxic("freeze"), Freeze),
        (toxic("timeout"), Lose),
        (toxic("slicer"), Cut),
        (toxic("limit_data", bytes=5), Limit),
        (toxic("reset_peer"), None),
        (toxic("half_open"), None),
    ],
)
def test_a_toxic_does_what_its_type_says(
    body: Mapping[str, Json], stage: type[Stage] | None
) -> None:
    made = read_toxic(body).stage("downstream", "learner-0", 1)
    assert made is None if stage is None else type(made) is stage


def test_what_is_left_out_is_as_in_toxiproxy() -> None:
    shown = read_toxic(toxic("latency", latency=7)).to_json()
    assert shown["name"] == "latency_downstream"
    assert (shown["stream"], shown["toxicity"]) == ("downstream", 1.0)
    assert shown["attributes"] == {"latency": 7, "jitter": 0.0}
    assert read_toxic({**toxic("latency"), "name": "", "stream": None}).to_json()["name"] == (
        "latency_downstream"
    )


def test_what_toxiproxy_does_not_know_is_shown_once_it_was_named() -> None:
    made = read_toxic(toxic("latency", latency=7, jitter=2, shape="uniform"))
    assert made.to_json()["attributes"] == {"latency": 7, "jitter": 2, "shape": "uniform"}
    made.change(changed(made, {"attributes": {"seed": 3}}))
    assert made.to_json()["attributes"] == {
        "latency": 7, "jitter": 2, "shape": "uniform", "seed": 3,
    }  # fmt: skip


def test_a_toxicity_is_a_share_of_the_connections() -> None:
    made = read_toxic({**toxic("freeze"), "toxicity": 0.25})
    assert made.to_json()["toxicity"] == 0.25
    hit = [made.hits("a", connection) for connection in range(2000)]
    assert hit == [made.hits("a", connection) for connection in range(2000)]
    assert 0.2 < sum(hit) / len(hit) < 0.3
    for toxicity, expected in ((0, False), (1, True)):
        made.change(changed(made, {"toxicity": toxicity}))
        assert {made.hits("a", connection) for connection in range(100)} == {expected}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_shown_can_be_read_again(kind: str) -> None:
    shown = read_toxic({"type": kind}).to_json()
    assert read_toxic(shown).to_json() == shown


def test_an_update_changes_what_it_names_and_keeps_the_rest() -> None:
    made = read_toxic(toxic("latency", latency=7, jitter=2))
    made.change(changed(made, {"attributes": {"latency": 9}}))
    shown = made.to_json()["attributes"]
    assert isinstance(shown, Mapping)
    assert (shown["latency"], shown["jitter"]) == (9, 2)
    with pytest.raises(Refused, match="stream"):
        changed(made, {"stream": "upstream"})


def draws(seed: int, *, link: str = "a", connection: int = 1, way: str = "upstream") -> list[float]:
    made = read_toxic({**toxic("latency", latency=50, jitter=40, seed=seed), "stream": "both"})
    stage = made.stage(way, link, connection)
    assert stage is not None
    return [stage.pass_at(1, 0.0) for _ in range(20)]


def test_chance_depends_on_the_seed_and_on_its_place_alone() -> None:
    assert draws(1) == draws(1)
    others = [draws(2), draws(1, link="b"), draws(1, connection=2), draws(1, way="downstream")]
    assert all(other != draws(1) for other in others)
    assert len({tuple(other) for other in others}) == len(others)


def test_a_rate_of_the_link_is_one_for_all_connections_of_a_direction() -> None:
    made = read_toxic({**toxic("bandwidth", rate=1, per="link"), "stream": "both"})
    one, other = (made.stage("upstream", "a", number) for number in (1, 2))
    back = made.stage("downstream", "a", 1)
    assert one is not None
    assert other is not None
    assert back is not None
    assert [stage.pass_at(1000, 0.0) for stage in (one, other, back)] == [1.0, 2.0, 1.0]
