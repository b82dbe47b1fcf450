"""`chaoslab doctor images`: what containers run, built where it is missing."""

from collections.abc import Iterator
from pathlib import Path

import click

from chaoslab.cli.commands.output import advise, examples, json_option, print_json
from chaoslab.core.errors import FleetError


@click.group(
    name="images",
    epilog=examples(
        "chaoslab doctor images build",
        "chaoslab doctor images list",
        "chaoslab doctor images build --help",
    ),
)
def command() -> None:
    """Build and list the container images of the Docker fleet."""


@command.command(
    name="build",
    epilog=examples(
        "chaoslab doctor images build",
        "chaoslab doctor images build --base registry.example/python:3.11-slim",
        "chaoslab doctor images build --wheels wheelhouse/",
        "chaoslab doctor images build --harness",
    ),
)
@click.option("--base", metavar="IMAGE", help="Base image of learner and syncer: Python 3.11 "
              "or newer with venv. Default: the official slim image or, without a registry, one "
              "made of Debian packages.")  # fmt: skip
@click.option("--wheels", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder of wheels to install from instead of collecting them.")  # fmt: skip
@click.option("--harness", "has_harness", is_flag=True,
              help="Also build the image of the harness, for a gate in a cluster.")  # fmt: skip
@click.option("--force", is_flag=True, help="Rebuild images that exist.")
@json_option
def build(
    *, base: str | None, wheels: Path | None, has_harness: bool, force: bool, as_json: bool
) -> None:
    """Build the missing images and print their base image.

    Tags contain the version and a hash of the source. The engine is that of DOCKER_HOST, or of this
    machine. Another --base than that of the present images rebuilds them; other --wheels need
    --force. Exit code 2 if there is no engine, 4 if an image that every run needs was not built.
    """
    from chaoslab.fleet.docker.engine.engine import Engine  # noqa: PLC0415
    from chaoslab.fleet.docker.images import images  # noqa: PLC0415  # needs the SDK

    engine = Engine.connect()
    source = images.source()
    used = images.built_on(engine, source)
    is_anew = force or (used is not None and base not in (None, used))
    if used is None or is_anew:
        used = _last(images.find_base(engine, base))
    _say(images.build_node(engine, source, used, wheels, force=is_anew))
    _say(images.build_proxy(engine, force=force))
    names = [source.image, source.next_image, images.proxy_image()]
    try:
        _say(images.build_tools(engine, used, force=is_anew))
        names.append(images.tools_image())
    except FleetError as error:
        click.echo(
            f"without {images.tools_image()}, `links: netem` and network.packets are refused: "
            f"{error}",
            err=True,
        )
    if has_harness:
        _say(images.build_harness(engine, source, used, wheels, force=is_anew))
        names.append(images.harness_image(source))
    _report(engine.url, used, {name: engine.image_bytes(name) for name in names}, as_json)


@command.command(
    name="list",
    epilog=examples("chaoslab doctor images list", "chaoslab doctor images list --json"),
)
@json_option
def show(*, as_json: bool) -> None:
    """List the images that this version of the source needs, and which exist.

    After a change of the source, other images are needed.
    """
    from chaoslab.fleet.docker.engine.engine import Engine  # noqa: PLC0415
    from chaoslab.fleet.docker.images import images  # noqa: PLC0415  # needs the SDK

    engine = Engine.connect()
    there = {name: engine.image_id(name) is not None for name in images.needed()}
    if as_json:
        print_json({"engine": engine.url, "images": there})
        return
    for name, is_there in there.items():
        click.echo(f"{name}  {'there' if is_there else 'missing'}")
    if not all(there.values()):
        advise("chaoslab doctor images build", "build what is missing")


def _say(lines: Iterator[str]) -> None:
    for line in lines:
        click.echo(line, err=True)


def _last(lines: Iterator[str]) -> str:
    """Print all lines but the last, which is the answer."""
    answer = ""
    for line in lines:
        if answer:
            click.echo(answer, err=True)
        answer = line
    if not answer:
        raise FleetError("no image to begin with was found")
    return answer


def _report(engine: str, base: str, sizes: dict[str, int], as_json: bool) -> None:
    if as_json:
        print_json({"engine": engine, "base": base, "images": sizes})
        return
    click.echo(f"base: {base}")
    for name, size in sizes.items():
        click.echo(f"{name}  {size / 1e6:.0f} MB")
    advise("chaoslab run kill_half --fleet docker", "break containers")
