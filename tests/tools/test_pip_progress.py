"""What `make` shows while packages are installed."""

import io
import zipfile
from pathlib import Path

from pip_progress import PipProgress, format_size, install_packages


def write_wheel(directory: Path) -> Path:
    """Write the smallest package that pip installs."""
    path = directory / "smallest-1.0-py3-none-any.whl"
    info = "smallest-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("smallest.py", "")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: smallest\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


def test_packages_and_their_sizes_are_counted_as_pip_fetches_them():
    progress = PipProgress()
    for line in (
        "Collecting torch==2.13.0",
        "  Downloading torch-2.13.0%2Bcpu-cp311-cp311-manylinux_2_28_x86_64.whl (187.5 MB)",
        "  Downloading torch-2.13.0-cp311.whl.metadata (30 kB)",
        "  Using cached rich-15.0-py3-none-any.whl (240 kB)",
    ):
        assert not progress.read_line(line)
    assert progress.describe() == "2 packages, 188 MB" and progress.current == "rich-15.0 (240 kB)"
    assert progress.read_line("Installing collected packages: rich, torch, radixway")
    assert progress.describe() == "3 packages, 188 MB"


def test_what_pip_installs_is_told_in_few_lines(tmp_path):
    out = io.StringIO()
    arguments = ["--no-index", "--target", str(tmp_path / "there"), str(write_wheel(tmp_path))]
    assert install_packages("Step", arguments, out) == 0
    assert (tmp_path / "there" / "smallest.py").exists()
    title, fetched, installed = out.getvalue().splitlines()
    assert title == "Step …" and "1 package, 1 kB" in fetched
    assert "fetched · " in fetched and "installed · " in installed


def test_what_pip_says_is_shown_where_it_fails(tmp_path):
    out = io.StringIO()
    assert install_packages("Step", ["--no-index", "no-such-package-here"], out) == 1
    assert "pip failed with exit code 1" in out.getvalue()
    assert "No matching distribution found for no-such-package-here" in out.getvalue()


def test_sizes_are_written_for_people():
    assert [format_size(size) for size in (0, 30_000, 187.5e6)] == ["0 kB", "30 kB", "188 MB"]
