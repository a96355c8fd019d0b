"""Personal data that is known by its form: patterns, check digits, and words beside them.

No model and no network: a text is read in time linear in its length.
"""

from radixway.semantics.guard.pii.recognisers.structured import (
    STRUCTURED_TYPES,
    find_structured,
    find_structured_steps,
)

__all__ = ["STRUCTURED_TYPES", "find_structured", "find_structured_steps"]
