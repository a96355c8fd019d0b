"""Options that take several values at a time, `--paths a b`, as argparse has them and Slime's users write."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from typer.core import TyperCommand


class SeveralValues(TyperCommand):
    """A command without arguments whose repeatable options take values up to the next option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        repeatable = {
            name for param in self.params if getattr(param, "multiple", False) for name in param.opts
        }
        return super().parse_args(ctx, list(repeat_options(args, repeatable)))


def repeat_options(args: Iterable[str], repeatable: Collection[str]) -> Iterator[str]:
    """`--paths a b` as `--paths a --paths b`."""
    option, values = "", 0
    for arg in args:
        if arg.startswith("-"):
            option, values = arg, 0
        else:
            values += 1
            if values > 1 and option in repeatable:
                yield option
        yield arg
