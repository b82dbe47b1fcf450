"""Connection to the cluster of an earlier run, for whoever undoes what it left."""

from chaoslab.core.errors import FleetError
from chaoslab.fleet.kubernetes.cluster import Cluster


def connect_again(server: str, context: str, namespace: str) -> Cluster:
    """The namespace of a run. FleetError if its context means another cluster now."""
    cluster = Cluster.connect(context, namespace)
    if cluster.server != server:
        cluster.close()
        raise FleetError(
            f"context {context} is {cluster.server} now, and was {server} in the run: name the "
            "run's kubeconfig by KUBECONFIG and heal again"
        )
    return cluster
