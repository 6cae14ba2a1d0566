"""No file imports, at run time or for types, what stands above it: there is no circle of files anywhere."""

from __future__ import annotations

import grimp


def circles(imports: dict[str, set[str]]) -> list[set[str]]:
    """Modules that reach each other (Tarjan's strongly connected components of more than one)."""
    found: list[set[str]] = []
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        path.append(module)
        for other in imports[module]:
            if other not in number:
                visit(other)
            if other in path:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == number[module]:
            group = set(path[path.index(module) :])
            del path[path.index(module) :]
            if len(group) > 1:
                found.append(group)

    for module in imports:
        if module not in number:
            visit(module)
    return found


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [{"b", "c"}]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_files_import_each_other_in_a_circle() -> None:
    graph = grimp.build_graph("hologram", cache_dir=None)
    imports = {m: graph.find_modules_directly_imported_by(m) for m in graph.modules}
    assert len(imports) > 200
    assert imports["hologram.runtime.engine"] >= {
        "hologram.runtime.memory.view",
        "hologram.opset.forms.operation",
    }
    assert circles(imports) == []
