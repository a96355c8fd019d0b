"""Style and script of the pages: served from here, nothing from anywhere else."""

from functools import cache
from pathlib import Path

from xxhash import xxh3_64_hexdigest

from radixway.console.page import BASE

DIRECTORY = Path(__file__).parent


@cache
def asset_url(name: str) -> str:
    """Return the address of the file `name`, with a mark of its content, so that browsers may keep it."""
    return f"{BASE}/assets/{name}?{xxh3_64_hexdigest((DIRECTORY / name).read_bytes())}"
