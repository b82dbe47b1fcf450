"""docker/compose.yaml on an engine, as Docker Compose would start it, for tests.

Compose itself is no part of an engine, and not on every machine. What it makes of the file is
containers with its labels, on a network and volumes of the project.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

import docker

FILE = Path(__file__).parent.parent / "docker" / "compose.yaml"
PROJECT = "com.docker.compose.project"


@contextmanager
def up(project: str, image: str) -> Iterator[docker.DockerClient]:
    """The services of the file in this project, until the block ends; nothing is left of them.

    What a killed test run left of the project goes first, since the names are fixed.
    """
    client = docker.from_env()
    found = YAML(typ="safe").load(FILE.read_text(encoding="utf-8"))
    labels = {PROJECT: project}
    _down(client, project)
    try:
        client.networks.create(f"{project}_training", labels=labels)
        for name in found["volumes"]:
            client.volumes.create(f"{project}_{name}", labels=labels)
        for name, service in found["services"].items():
            _create(client, project, image, name, service)
        yield client
    finally:
        _down(client, project)
        client.close()


def _down(client: docker.DockerClient, project: str) -> None:
    of_project = {"label": f"{PROJECT}={project}"}
    for container in client.containers.list(all=True, filters=of_project):
        container.remove(force=True)
    for network in client.networks.list(filters=of_project):
        network.remove()
    for volume in client.volumes.list(filters=of_project):
        volume.remove(force=True)


def _create(
    client: docker.DockerClient, project: str, image: str, name: str, service: dict[str, Any]
) -> None:
    network = f"{project}_training"
    made = client.containers.create(
        image,
        [str(word) for word in service["command"]],
        name=f"{project}-{name}-1",
        labels={PROJECT: project, "com.docker.compose.service": name},
        environment=service["environment"],
        volumes=[f"{project}_{volume}" for volume in service["volumes"]],
        restart_policy={"Name": service["restart"]},
        init=service["init"],
        mem_limit=service["mem_limit"],
        pids_limit=service["pids_limit"],
        cap_drop=service["cap_drop"],
        security_opt=service["security_opt"],
        network=network,
    )
    client.networks.get(network).disconnect(made)
    client.networks.get(network).connect(made, aliases=[name])
    made.start()
