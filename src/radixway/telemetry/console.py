"""A console for processes that live longer than whoever reads them."""

from __future__ import annotations

import os
from pathlib import Path

from rich.console import Console


class ServerConsole(Console):
    """Falls silent when its reader is gone (`radixway up | head -1`), where rich would end the process."""

    def on_broken_pipe(self) -> None:
        """Everything written to the same stream from now on is lost, without an error."""
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), self.file.fileno())
