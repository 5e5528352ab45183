"""Which cells of a lesson can do something else when its exercises are solved.

A test runs every lesson twice in one kernel: unsolved, then solved. In the second run, most cells would only repeat the
first. `second_run` finds the others by the names that cells read and give.
"""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Names:
    """The global names that a cell reads from before, and those that it gives: assigns, defines, imports, changes."""

    reads: frozenset[str]
    gives: frozenset[str]


def names(source: str) -> Names:
    """The names of a cell. A name inside a function counts as read, because a later call reads it."""
    reads, gives = set[str](), set[str]()
    for step in _steps(ast.parse(source).body):
        read, given = _names(step)
        reads |= read - gives
        gives |= given
    return Names(frozenset(reads), frozenset(gives))


def _steps(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The simple statements of a block, in their order; a loop or a `with` assigns its names first."""
    for statement in body:
        match statement:
            case ast.For(target, value):
                yield ast.Assign([target], value, lineno=0)
            case ast.With(items):
                for item in items:
                    target = item.optional_vars
                    yield ast.Assign([target], item.context_expr, lineno=0) if target else ast.Expr(item.context_expr)
            case ast.If(test) | ast.While(test):
                yield ast.Expr(test)
            case ast.Try():
                yield from _steps([inner for handler in statement.handlers for inner in handler.body])
            case _:
                yield statement
                continue
        for part in ("body", "orelse", "finalbody"):
            yield from _steps(getattr(statement, part, []))


def _names(step: ast.stmt) -> tuple[set[str], set[str]]:
    """Global names that a statement reads and gives; a changed part (`x.y = ...`, `x[0] = ...`) gives the whole."""
    reads, gives = set[str](), set[str]()
    tables = [symtable.symtable(ast.unparse(step), "", "exec")]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        top = table.get_type() == "module"
        for symbol in table.get_symbols():
            if top or symbol.is_global():
                reads |= {symbol.get_name()} if symbol.is_referenced() else set()
                gives |= {symbol.get_name()} if top and (symbol.is_assigned() or symbol.is_imported()) else set()
    for node in ast.walk(step):
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            gives |= {inner.id for inner in ast.walk(node.value) if isinstance(inner, ast.Name)} & reads
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            reads.add(node.target.id)
    return reads, gives


def second_run(before: Sequence[str], after: Sequence[str]) -> list[int]:
    """Positions of the cells to run again, in order, when the sources `before` have run and become `after`.

    A cell runs again if its source is another one, or if it reads a name that a cell before it has given again. It also
    runs again if a cell that runs again reads its name, and yet another cell gives that name too: then the first run
    has left another value.
    """
    cells = [names(source) for source in after]
    again = {i for i, (old, new) in enumerate(zip(before, after, strict=True)) if old != new}
    while True:
        found = set(again)
        for i, cell in enumerate(cells):
            for name in cell.reads:
                givers = [j for j, other in enumerate(cells) if name in other.gives]
                if not (earlier := [j for j in givers if j < i]):
                    continue
                if earlier[-1] in again:
                    found.add(i)
                elif i in again and len(givers) > 1:
                    found.add(earlier[-1])
        if found == again:
            return sorted(again)
        again = found
