"""How the command begins."""

import subprocess
import sys

import pytest

INTERRUPTED_IMPORT = """
import importlib.abc
import runpy
import signal
import sys


class CtrlC(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == MODULE:
            signal.raise_signal(signal.SIGINT)


sys.meta_path.insert(0, CtrlC())
runpy.run_module("radixway", run_name="__main__")
"""


@pytest.mark.parametrize("module", ["radixway.cli", "typer", "radixway.core.config"])
def test_ctrl_c_while_it_is_imported_ends_it_quietly(module: str) -> None:
    code = INTERRUPTED_IMPORT.replace("MODULE", repr(module))
    told = subprocess.run([sys.executable, "-c", code, "serve"], capture_output=True)
    assert (told.returncode, told.stdout, told.stderr) == (130, b"", b"")
