"""Radixway: the gateway for people who run their own language models.

`docs/` explains it, `app.py` shows how the rooms fit together, `cli.py` is the way in.
"""

from importlib.metadata import version as _version

__version__ = _version("radixway")
