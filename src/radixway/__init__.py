"""Radixway: the gateway for people who run their own language models.

`docs/` explains it, `app.py` shows how the rooms fit together, `cli.py` is the way in.
"""

__version__ = "0.1.0"
