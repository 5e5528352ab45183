"""Cells that end by listing source code: list it anew without executing the lesson, so that no stored page is stale."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from nbformat import NotebookNode

_LISTS = ("listing", "excerpt")  # functions of pmd_kit.listing


def relist(nb: NotebookNode) -> list[str]:
    """Put today's source into the stored outputs of such cells, in place; returns the calls whose source had changed.

    Only the lesson's imports are executed.
    """
    changed = []
    for call, shown, cell in _listings(nb):
        for out in cell.outputs:
            if out.output_type == "execute_result":
                fresh = {"text/html": shown._repr_html_(), "text/plain": repr(shown)}
                changed += [call] if any(out.data.get(form) != text for form, text in fresh.items()) else []
                out.data.update(fresh)
    return changed


def _listings(nb: NotebookNode) -> Iterator[tuple[str, Any, NotebookNode]]:
    """(call, the listing, its cell) of every cell whose last line is such a call."""
    names: dict[str, Any] = {}
    for cell in nb.cells:
        if cell.cell_type != "code" or cell.source.lstrip().startswith(("%", "!")):
            continue
        lines = ast.parse(cell.source).body
        imports: list[ast.stmt] = [line for line in lines if isinstance(line, ast.Import | ast.ImportFrom)]
        exec(compile(ast.Module(imports, []), "imports of a lesson", "exec"), names)
        match lines[-1:]:
            case [ast.Expr(ast.Call(ast.Name(name)) as call)] if name in _LISTS:
                yield ast.unparse(call), eval(compile(ast.Expression(call), "a listing", "eval"), names), cell
