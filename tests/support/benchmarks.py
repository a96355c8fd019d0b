"""Benchmarks as modules, though some share their names with packages of tests and modules of examples."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from support.pages import ROOT

BENCHMARKS = ROOT / "benchmarks"


@contextmanager
def importing_benchmarks() -> Iterator[None]:
    """Let the modules of `benchmarks/` be imported by their names, which afterwards are whose they were."""
    names = [path.stem for path in BENCHMARKS.glob("*.py")]
    others = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield
    finally:
        sys.path.remove(str(BENCHMARKS))
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(others)
