"""Sampled tokens as text, while they come: whole characters only, and no part of a possible stop string.

    text so far   [ given out ............ | held ]
                                             └ may be the beginning of a stop string

Both the streamed and the whole answer are made here, so they are the same text.
"""

import codecs
from collections.abc import Sequence

import re2

from radixway.core.parsers import partial_match_start
from radixway.core.tokenizer import Tokenizer
from radixway.engine.sampling_params import SamplingParams

MAX_STOP_REGEX_SIZE = 1_024
"""Instructions of RE2 that the stop patterns of one request may have together: each may be tried at every
character, 1.7 ns each, with every token, and all other requests of the step wait for it."""

_MAX_REGEX_BYTES = 1 << 20
_MAX_REGEX_STEPS = 1 << 20  # instructions times characters that are looked through with a token: 2 ms
_MAX_REGEX_WINDOW = 16_384  # characters


class IncrementalDetokenizer:
    """Token ids to text in O(1) per token: each token's bytes through an incremental UTF-8 decoder.

    A character split over tokens comes out with its last byte; bytes that cannot be UTF-8, as U+FFFD.
    """

    def __init__(self, tokenizer: Tokenizer, *, skip_special_tokens: bool = True) -> None:
        self._token_bytes = tokenizer.token_bytes
        self._skipped: frozenset[int] = tokenizer.special_ids if skip_special_tokens else frozenset()
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, token_ids: Sequence[int]) -> str:
        """Decode `token_ids`; returns the text that they complete."""
        data = b"".join([self._token_bytes[token] for token in token_ids if token not in self._skipped])
        return self._utf8.decode(data)

    def flush(self) -> str:
        """Return the replacement for an unfinished character; no more tokens will come."""
        return self._utf8.decode(b"", final=True)


class StopStringMatcher:
    """Cuts a growing text at the first stop string to be complete in it (of several, the longest).

    How the text is divided into pushes makes no difference to what comes out.
    """

    def __init__(self, stops: Sequence[str], *, include: bool = False) -> None:
        self.matched: str | None = None
        self._stops = tuple(stops)
        self._include = include
        self._pending = ""
        self._early = 0
        """Stop strings that end within this much of what is held do not count."""

    def feed(self, text: str, *, early: bool = False) -> str:
        """Append `text`; returns what can be given out now, and nothing once `matched` is set. A stop string
        that is complete in an `early` text does not count; one that only begins in it does.
        """
        if self.matched is not None:
            return ""
        text = self._pending + text
        if early:
            self._early = len(text)
        found = [
            (at + len(stop), at, stop)
            for stop in self._stops
            if (at := text.find(stop, max(0, self._early + 1 - len(stop)))) >= 0
        ]
        if found:
            end, start, self.matched = min(found)
            self._pending = ""
            return text[: end if self._include else start]
        decided = min([len(text), *(partial_match_start(text, stop) for stop in self._stops)])
        self._pending = text[decided:]
        self._early = max(0, self._early - decided)
        return text[:decided]

    def flush(self) -> str:
        """The text that turned out to be no stop string."""
        pending, self._pending = self._pending, ""
        return pending


class StopRegexMatcher:
    """Cuts a growing text behind the first match of a regular expression, in time linear in the text.

    A match is looked for in the last `window` characters: by default in 16,384, or fewer where `patterns` are
    large, but always in more than one without `*` or `+` can have.
    """

    def __init__(self, patterns: Sequence[str], *, window: int | None = None) -> None:
        self.matched: str | None = None
        self._patterns = [compile_stop_regex(pattern) for pattern in patterns]
        size = max(1, sum(pattern.programsize for pattern in self._patterns))
        self._window = (
            min(_MAX_REGEX_WINDOW, max(size, _MAX_REGEX_STEPS // size)) if window is None else window
        )
        self._text = ""
        self._early = -1
        """Matches that end within this much of `_text` do not count."""

    def feed(self, text: str, *, early: bool = False) -> str:
        """Append `text`; returns it up to the end of the first match, and nothing once `matched` is set. A
        match that is complete in an `early` text does not count; one that only begins in it does.
        """
        if self.matched is not None:
            return ""
        if not self._patterns or not text:
            return text
        kept = self._text[-self._window :]
        self._early = max(-1, self._early - len(self._text) + len(kept))
        self._text = kept + text
        if early:
            self._early = len(self._text)
            return text
        ends = [
            (match.end(), pattern.pattern)
            for pattern in self._patterns
            for match in pattern.finditer(self._text)
            if match.end() > self._early
        ]
        if not ends:
            return text
        end, self.matched = min(ends)
        return text[: max(0, end - len(kept))]


def compile_stop_regex(pattern: str) -> re2._Regexp:
    """Compile a pattern of `SamplingParams.stop_regex`. Raises re2.error."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_REGEX_BYTES
    return re2.compile(pattern, options)


class DetokenizedStream:
    """The text of one request's tokens: detokenised, and cut at the first stop string that counts."""

    def __init__(self, tokenizer: Tokenizer, params: SamplingParams) -> None:
        self._tokens = IncrementalDetokenizer(tokenizer, skip_special_tokens=params.skip_special_tokens)
        self._patterns = StopRegexMatcher(params.stop_regex)
        self._stops = StopStringMatcher(params.stop, include=params.include_stop)
        self._early_tokens = params.min_tokens

    @property
    def matched_stop(self) -> str | None:
        """The stop string or pattern that ended the text, once one has."""
        return self._stops.matched or self._patterns.matched

    def feed(self, token_ids: Sequence[int]) -> str:
        """Decode `token_ids`; returns the text that is now certain."""
        early, late = token_ids[: self._early_tokens], token_ids[self._early_tokens :]
        self._early_tokens -= len(early)
        text = self._find_stops(self._tokens.feed(early), early=True) if early else ""
        return text + self._find_stops(self._tokens.feed(late)) if late else text

    def flush(self) -> str:
        """Return the text that was held back; no more tokens will come."""
        rest = self._find_stops(self._tokens.flush(), early=self._early_tokens > 0)
        return rest + self._stops.flush()

    def _find_stops(self, text: str, *, early: bool = False) -> str:
        return self._stops.feed(self._patterns.feed(text, early=early), early=early)
