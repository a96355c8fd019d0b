"""What the pages are drawn from and that is no code: rows of tables, options of charts, the sign-in page."""

from functools import cache
from pathlib import Path


@cache
def read_template(name: str) -> str:
    """Return the text of the file `name`."""
    return (Path(__file__).parent / name).read_text("utf-8")
