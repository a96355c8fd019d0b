"""Personal data that is known by its form: patterns, check digits, and words beside them.

No model and no network: a text is read in time linear in its length.

To add one, write a module here with a `find_…` generator and a tuple `RECOGNISERS` (see `ip_addresses.py`),
and its test in `tests/semantics/guard/pii/recognisers/`. `structured.py` finds the module by itself.
"""

from radixway.semantics.guard.pii.recognisers.structured import (
    STRUCTURED_TYPES,
    find_structured,
    find_structured_steps,
)

__all__ = ["STRUCTURED_TYPES", "find_structured", "find_structured_steps"]
