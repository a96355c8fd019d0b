"""`cache-control` and `x-vsr-cache-control` of a request: what the client allows the cache."""

from dataclasses import dataclass

_MAX_AGE_S = 10**9


@dataclass(frozen=True, slots=True)
class CacheDirectives:
    """Cache directives; by default everything is allowed."""

    may_answer: bool = True
    """A kept answer will do (not under `no-cache`, `no-store`, `bypass`)."""
    may_keep: bool = True
    """The answer may be kept (not under `no-store`, `bypass`)."""
    max_age_s: float | None = None
    """Older answers will not do."""
    ttl_s: float | None = None
    """How long the answer may be kept, where that is shorter than configured."""


ANYTHING = CacheDirectives()


def read_directives(header: str | None) -> CacheDirectives:
    """Read a header's directives, both headers joined by commas. Unknown ones are ignored, as HTTP has it.

    A `max-age` or `ttl` that is no number of seconds is taken as 0: when in doubt, ask the model.
    """
    if not header:
        return ANYTHING
    may_answer = may_keep = True
    max_age_s: float | None = None
    ttl_s: float | None = None
    for part in header.lower().split(","):
        name, _, value = part.strip().partition("=")
        match name.strip():
            case "no-cache":
                may_answer = False
            case "no-store" | "bypass":
                may_answer = may_keep = False
            case "max-age":
                max_age_s = _minimum(max_age_s, _parse_seconds(value))
            case "ttl":
                ttl_s = _minimum(ttl_s, _parse_seconds(value))
    return CacheDirectives(may_answer, may_keep, max_age_s, ttl_s)


def _minimum(known: float | None, more: float) -> float:
    return more if known is None else min(known, more)


def _parse_seconds(value: str) -> float:
    digits = value.strip().strip('"')
    if not (digits.isascii() and digits.isdigit()):
        return 0.0
    return float(min(int(digits[:10]), _MAX_AGE_S))
