"""`python -m tests.statements [FOLDER…]`: statements of Python per package, by default of all.

Nodes of the syntax tree that are statements, without docstrings and without what protoc wrote. So
neither line breaks nor comments count.
"""

import ast
from collections import Counter
from pathlib import Path

import click

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def statements(path: Path) -> int:
    """Statements of a file."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    documented = [node for node in nodes if isinstance(node, DOCUMENTED)]
    docstrings = sum(ast.get_docstring(node, clean=False) is not None for node in documented)
    return sum(isinstance(node, ast.stmt) for node in nodes) - docstrings


def by_package(folder: Path) -> Counter[str]:
    """Statements of each folder in `folder`; its own files count as "."."""
    counted: Counter[str] = Counter()
    for path in folder.rglob("*.py"):
        if not path.stem.endswith(("_pb2", "_pb2_grpc")):
            *parts, _ = path.relative_to(folder).parts
            counted[parts[0] if parts else "."] += statements(path)
    return counted


@click.command()
@click.argument("folders", nargs=-1, type=click.Path(exists=True, path_type=Path))
def count(folders: tuple[Path, ...]) -> None:
    """Print the statements of each package of FOLDERS, by default chaoslab/ and tests/."""
    for folder in folders or (Path("chaoslab"), Path("tests")):
        for package, found in (counted := by_package(folder)).most_common():
            click.echo(f"{found:7,} {package}")
        click.echo(f"{counted.total():7,} {folder}/")


if __name__ == "__main__":
    count()
