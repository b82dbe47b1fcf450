"""`chaoslab doctor rights`: the Role that a fleet in a cluster needs, for an administrator."""

import click

from chaoslab.cli.commands.output import examples
from chaoslab.fleet.kubernetes.rights import RIGHTS, machines_role, role


@click.command(
    name="rights",
    epilog=examples(
        "chaoslab doctor rights kubernetes",
        "chaoslab doctor rights kubernetes --namespace chaos | kubectl apply -f -",
        "chaoslab doctor rights kubernetes --nodes | kubectl apply -f -",
        "chaoslab doctor rights namespace --namespace training | kubectl apply -f -",
    ),
)
@click.argument("kind", type=click.Choice(list(RIGHTS)))
@click.option("--namespace", default="chaoslab", show_default=True, metavar="NAME",
              help="Namespace of the Role.")  # fmt: skip
@click.option("--nodes", "with_nodes", is_flag=True, help="Also the ClusterRole that node.drain "
              "needs: of KIND kubernetes.")  # fmt: skip
def command(*, kind: str, namespace: str, with_nodes: bool) -> None:
    """Print the Role with exactly the rights that a fleet of KIND uses in its namespace.

    KIND is `kubernetes`, for runs that chaoslab starts, or `namespace`, for `chaoslab attach
    namespace:NAME`. Bind it to the user that runs chaoslab. Nothing outside the namespace is asked
    for without `--nodes`.
    """
    if with_nodes and kind != "kubernetes":
        raise click.UsageError("--nodes is for kubernetes: no fault acts on nodes in `attach`")
    click.echo(role(namespace, kind), nl=False)
    if with_nodes:
        click.echo(f"---\n{machines_role()}", nl=False)
