"""A model from the hub: into its cache, or from there, and how far that is."""

import threading
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

from rich.filesize import decimal

from radixway.engine.errors import ModelNotFoundError

LoadProgress = Callable[[str, float], None]
"""Called with a stage and its done share in [0, 1] while a model loads."""

HUB_FILES = ["*.json", "*.safetensors", "*.jinja", "tokenizer.model", "*.txt"]


def download_model(model: str, revision: str | None, progress: LoadProgress | None = None) -> Path:
    """The local directory of a hub id; what is not in the cache is fetched. Raises `ModelNotFoundError`.

    Two stages are reported side by side: missing bytes and missing files. What `progress` raises
    ends the download; what has come stays for the next try.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    def snapshot(**options: Any) -> Any:
        return snapshot_download(model, revision=revision, allow_patterns=HUB_FILES, **options)

    if progress:
        progress(f"looking for {model}", 0.0)
    try:
        missing = _missing_file_sizes(snapshot) if progress else []
        if not progress or not missing:
            return Path(snapshot())
        meter = _DownloadMeter(model, missing, progress)
        path = Path(snapshot(tqdm_class=_make_bar_class(meter)))
        meter.mark_finished()
        return path
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        why = f"no such directory, and the hub did not give it: {str(error).splitlines()[0]}"
        raise ModelNotFoundError(model, why) from error


def _missing_file_sizes(snapshot: Callable[..., Any]) -> list[int]:
    """Return the size of each missing file; none if the hub is unreachable."""
    from huggingface_hub.errors import DryRunError

    try:
        files = snapshot(dry_run=True, tqdm_class=_make_bar_class(None))
    except DryRunError:
        return []
    return [file.file_size or 0 for file in files if file.will_download]


class _DownloadMeter:
    """Sums the hub's progress bars from several threads."""

    def __init__(self, model: str, missing: list[int], progress: LoadProgress) -> None:
        self._progress = progress
        self._lock = threading.Lock()
        self.num_files = len(missing)
        self._totals = {"bytes": sum(missing), "files": len(missing)}
        self._names = {
            "bytes": f"downloading {model}: {decimal(sum(missing))}",
            "files": f"downloading {model}: {len(missing)} file{'s' * (len(missing) > 1)}",
        }
        self._reported = {"bytes": 0.0, "files": 0.0}
        for name in self._names.values():
            progress(name, 0.0)

    def record_progress(self, unit: str, done: float) -> None:
        """Note that `done` bytes or files (`unit`) are there; reports every further percent."""
        with self._lock:
            total = self._totals[unit]
            share = min(1.0, done / total) if total else 1.0
            if share >= min(1.0, self._reported[unit] + 0.01) and share > self._reported[unit]:
                self._reported[unit] = share
                self._progress(self._names[unit], share)

    def mark_finished(self) -> None:
        for unit, total in self._totals.items():
            self.record_progress(unit, total)


def _make_bar_class(meter: _DownloadMeter | None) -> type[Any]:
    """Return a progress-bar class for the hub's client that reports to `meter`."""
    from tqdm import tqdm  # type: ignore[import-untyped]

    class Bar(tqdm):  # type: ignore[misc]
        """A bar of the client's: bytes on the wire, bytes on disk, or files, cached ones included."""

        def __init__(self, *args: Any, **options: Any) -> None:
            self._unit = "bytes" if options.get("unit") == "B" else "files"
            super().__init__(*args, **{**options, "file": StringIO(), "mininterval": 1e9})

        def update(self, n: float | None = 1) -> bool | None:
            shown: bool | None = super().update(n)
            if meter is not None:
                cached = (self.total or 0) - meter.num_files if self._unit == "files" else 0
                meter.record_progress(self._unit, self.n - cached)
            return shown

    return Bar
