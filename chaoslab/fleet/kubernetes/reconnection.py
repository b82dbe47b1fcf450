"""Connection to the cluster of an earlier run, to undo what it left."""

from chaoslab.core.errors import FleetError
from chaoslab.fleet.kubernetes.port_forward import ForwardingCluster


def connect_again(server: str, context: str, namespace: str) -> ForwardingCluster:
    """The namespace of a run. FleetError if its context means another cluster now."""
    cluster = ForwardingCluster.connect(context, namespace)
    if cluster.server != server:
        cluster.close()
        raise FleetError(
            f"context {context} is {cluster.server} now, and was {server} in the run: name the "
            "run's kubeconfig by KUBECONFIG and heal again"
        )
    return cluster
