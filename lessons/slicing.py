"""The part of a notebook that one exercise needs: its own cell, and the statements that define what the cell uses."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """A code cell as plain Python. solution: whether a student was to write the answer in here."""

    text: str
    solution: bool = False


@dataclass(frozen=True)
class Slice:
    """Statements in the order of the notebook."""

    statements: Sequence[ast.stmt]

    @property
    def code(self) -> str:
        """The statements as source text."""
        return "\n".join(ast.unparse(statement) for statement in self.statements)


def slice_of(cells: Sequence[Cell], needed: set[str]) -> Slice:
    """What defines the names in `needed`: cells from the last solution cell on, whole, and what these use.

    Training and tables between the exercises are left out, unless an answer uses their names. Raises SyntaxError when
    the last solution cell, or one that the student put behind it, is not Python.
    """
    own = max((i for i, cell in enumerate(cells) if cell.solution), default=len(cells))
    last = [statement for cell in cells[own:] for statement in ast.parse(cell.text).body]
    before = [statement for cell in cells[:own] for statement in statements(cell.text)]
    here = {name for statement in last for name in bound(statement)}
    wanted = needed | {name for statement in last for name in used(statement)}
    chosen: set[int] = set()
    while True:
        more = {i for i, statement in enumerate(before)
                if i not in chosen and (bound(statement) & (wanted - here) or "*" in bound(statement))}  # fmt: skip
        if not more:
            return Slice([*(before[i] for i in sorted(chosen)), *last])
        chosen |= more
        wanted |= {name for i in more for name in used(before[i])}


def statements(text: str) -> list[ast.stmt]:
    """The top-level statements of a cell; none where it is not Python."""
    try:
        return ast.parse(text).body
    except SyntaxError:
        return []


def bound(statement: ast.stmt) -> set[str]:
    """Names that a top-level statement defines or changes."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).split(".")[0] for alias in statement.names}
    found = set()
    for node in ast.walk(statement):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            base: ast.expr = node
            while isinstance(base, (ast.Attribute, ast.Subscript)):
                base = base.value
            if isinstance(base, ast.Name):
                found.add(base.id)
    return found


def used(statement: ast.stmt) -> set[str]:
    """Names that a top-level statement takes from outside; names local to its functions are not among them."""
    return _global_names(symtable.symtable(ast.unparse(statement), "cell", "exec"), top=True)


def _global_names(table: symtable.SymbolTable, top: bool) -> set[str]:
    found = {
        symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced() and (top or symbol.is_global())
    }
    for child in table.get_children():
        found |= _global_names(child, top=False)
    return found
