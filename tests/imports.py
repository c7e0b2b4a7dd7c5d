"""What the files of model/ and viz_app/ import. They are parsed, not run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted(
    path.relative_to(ROOT).as_posix()
    for package in ("headwise", "model", "viz_app")
    for path in (ROOT / package).rglob("*.py")
)


def imports_of(source: str, file: str) -> Iterator[str]:
    """Full names that a file imports: of modules, and of what it takes from them."""
    package = ["headwise", *file.removesuffix("/__init__.py").removesuffix(".py").split("/")]
    package = package if file.endswith("__init__.py") else package[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*parents, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


@cache
def all_imports() -> dict[str, set[str]]:
    """File → what it imports."""
    sources = {file: (ROOT / file).read_text(encoding="utf-8") for file in FILES}
    return {file: set(imports_of(source, file)) for file, source in sources.items()}
