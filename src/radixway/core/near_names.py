"""The end of an error message that names what was perhaps meant."""

from collections.abc import Iterable
from difflib import get_close_matches

_MIN_SIMILARITY = 0.6
_MIN_PREFIX_CHARS = 3


def suggest_names(given: str, known: Iterable[str]) -> str:
    """Return `; did you mean …?` with the names of `known` nearest to `given`, or an empty string."""
    folded = {name.casefold(): name for name in known if name != given}
    near = get_close_matches(given.casefold(), folded, n=3, cutoff=_MIN_SIMILARITY)
    if not near and len(given) >= _MIN_PREFIX_CHARS:
        near = [name for name in folded if name.startswith(given.casefold())][:3]
    if not near:
        return ""
    names = [folded[name] for name in near]
    return f"; did you mean {', '.join(names[:-1])}{' or ' if names[1:] else ''}{names[-1]}?"
