"""What the files of model/ and viz_app/ import. They are parsed, not run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted(
    path.relative_to(ROOT).as_posix()
    for package in ("headwise", "model", "viz_app")
    for path in (ROOT / package).rglob("*.py")
)


def within(files: set[str], *places: str) -> set[str]:
    """Those of the files that are one of some files, or inside one of some folders/."""
    return {
        file
        for file in files
        if any(file == place or (place[-1] == "/" and file.startswith(place)) for place in places)
    }


PAGES = {file.split("/")[1] for file in FILES if re.fullmatch(r"viz_app/\w+/page\.py", file)}
SECTIONS = {
    file
    for file in within(set(FILES), *(f"viz_app/{page}/" for page in PAGES))
    if re.fullmatch(r"viz_app/\w+/(\w+/section(/\w+)?|(?!choices|__init__|__main__)\w+)\.py", file)
}
"""Files that draw: those of a page itself, and the sections of its abilities."""
DRAWN = SECTIONS | within(set(FILES), "viz_app/frame/", "viz_app/session/")
"""Those, and what stands around them."""


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
