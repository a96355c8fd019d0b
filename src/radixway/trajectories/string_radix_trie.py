"""The published interface of Slime's radix tree, upon the store."""

from collections.abc import Hashable, Sequence
from functools import cached_property
from operator import index
from threading import RLock
from typing import Any

from radixway.trajectories.memory_budget import MemoryBudget, StoreFullError
from radixway.trajectories.retrieval import RetrievedTokens, TokenRetrieval
from radixway.trajectories.store import TrajectoryMatch, TrajectoryStore
from radixway.trajectories.token_records import Spans, TokenLabel, Trajectory, Version, spans_from_labels
from radixway.trajectories.token_segment import TokenSegment
from radixway.trajectories.tokenizer_adapter import TokenizerAdapter, adapt_tokenizer


class MatchResult:
    """The longest beginning of a text whose tokens are known; lists are per token."""

    def __init__(self, text: str, found: TrajectoryMatch, known: Trajectory) -> None:
        raw = text.encode("utf-8", "surrogatepass")
        self.matched_prefix = raw[: found.text].decode("utf-8", "surrogatepass")
        self.remaining_string = text[len(self.matched_prefix) :]
        self.last_node = found.place.node
        self.ambiguous = found.ambiguous
        """Several records begin like this; this is the one used last."""
        self.trajectory = known

    @cached_property
    def token_ids(self) -> list[int]:
        """Their ids."""
        return self.trajectory.ids.tolist()

    @cached_property
    def logp(self) -> list[float]:
        """Their log-probabilities, 0.0 where there is none."""
        return self.trajectory.logprobs.tolist()

    @cached_property
    def loss_mask(self) -> list[int]:
        """1 for each token that the model made."""
        return self.trajectory.mask

    @cached_property
    def generation_versions(self) -> list[Version | None]:
        """Return the weight version of each; None for tokens of a prompt."""
        return self.trajectory.versions

    def __repr__(self) -> str:
        tokens = len(self.trajectory.ids)
        return f"<{tokens} tokens for {self.matched_prefix!r}, then {self.remaining_string!r}>"


class StringRadixTrie:
    """Text → tokens, log-probabilities, loss mask. May be used from several threads.

    `max_cache_size` counts tokens and `max_bytes` memory; both are hard. `gc_threshold_k`: what no weights
    newer than so many versions have used is removed by `gc_by_weight_version`, and when room is needed.
    `tokenizer`: Radixway's, one of `tokenizers` or `transformers`, or anything with `encode` and `decode`.
    """

    def __init__(
        self,
        max_cache_size: int | None = 10_000,
        gc_threshold_k: int = 5,
        tokenizer: Any = None,
        verbose: bool = False,
        *,
        max_bytes: int | None = None,
        memory: MemoryBudget | None = None,
    ) -> None:
        for name, value in (("max_cache_size", max_cache_size), ("max_bytes", max_bytes)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        if gc_threshold_k < 1:
            raise ValueError(f"gc_threshold_k must be at least 1, not {gc_threshold_k}")
        self.tokenizer = tokenizer
        self.gc_threshold_k = gc_threshold_k
        self.verbose = verbose
        self.cache_hits = 0
        self.cache_misses = 0
        self.encoder: TokenizerAdapter | None = None if tokenizer is None else adapt_tokenizer(tokenizer)
        self.store = TrajectoryStore(
            self.encoder, max_bytes=max_bytes, max_tokens=max_cache_size, memory=memory
        )
        self._lock = RLock()

    @property
    def max_cache_size(self) -> int | None:
        """The limit in tokens; None without one."""
        return self.store.max_tokens

    @property
    def cur_cache_size(self) -> int:
        """Tokens there are."""
        return self.store.tokens

    def insert(
        self,
        text: str,
        token_ids: Sequence[int],
        logp: Sequence[float] | None = None,
        loss_mask: Sequence[int] | None = None,
        weight_version: Version | None = None,
        *,
        versions: Sequence[Version | None] | None = None,
        offsets: Sequence[int] | None = None,
        session: Hashable = None,
    ) -> bool:
        """Store a text's tokens; those with loss mask 1 were sampled, by `weight_version` if they are new.

        `versions`: which weights sampled each token, where they were not all the same (None for a prompt's).
        `offsets`: at which character of `text` each token ends, if the tokenizer cannot tell. False if
        nothing was stored: empty, lengths that do not match, or no free memory. Raises ValueError
        for ids, log-probabilities, versions or offsets that are none, TypeError for a text that is none or a
        session that cannot be a key.
        """
        if not text or not len(token_ids):
            return False
        _require_text(text)
        hash(session)
        weight_version = _normalize_version(weight_version)
        lists = (logp, loss_mask, versions, offsets)
        if any(each is not None and len(each) != len(token_ids) for each in lists):
            return False
        raw = text.encode("utf-8", "surrogatepass")
        given = TokenSegment.from_mask(token_ids, raw, logp, loss_mask, weight_version)
        if versions is not None:
            given.spans = _spans_of_versions(given.sampled, list(map(_normalize_version, versions)))
        ends = () if offsets is None else _byte_offsets(text, offsets)
        with self._lock:
            self.make_room(len(token_ids), weight_version)
            try:
                hold = self.store.insert(given, weight_version, session=session, ends=ends)
            except StoreFullError:
                return False
            self.store.release_hold(hold)
        return True

    def find_longest_prefix(self, text: str, *, session: Hashable = None) -> MatchResult:
        """The longest beginning of `text` whose tokens are known."""
        _require_text(text)
        with self._lock:
            found = self.store.match_prefix(text, session)
            self.count_lookup(found)
            return MatchResult(text, found, self.store.trajectory(found))

    def retrieve(self, text: str, *, session: Hashable = None) -> RetrievedTokens:
        """The tokens of all of `text`; what is not known of it is made by the tokenizer, and says so.

        Raises ValueError where that would need a tokenizer and there is none.
        """
        _require_text(text)
        with self._lock:
            found = self.store.match_prefix(text, session, hidden=True)
            self.count_lookup(found)
            retrieval = TokenRetrieval(self.store, text, found, self.encoder)
            return retrieval.join_tokens(retrieval.encode_rest())

    def retrieve_from_text(
        self, text: str, return_logprob: bool = True
    ) -> tuple[list[int], list[float], list[int]]:
        """Token ids, log-probabilities (zeros unless `return_logprob`) and loss mask of all of `text`.

        Raises ValueError for an empty text, or where a tokenizer is needed and there is none.
        """
        if not text:
            raise ValueError("the text is empty")
        trajectory = self.retrieve(text).trajectory
        logp = trajectory.logprobs.tolist() if return_logprob else [0.0] * len(trajectory.ids)
        return trajectory.ids.tolist(), logp, trajectory.mask

    def gc_by_weight_version(self, current_weight_version: Version) -> int:
        """Remove what was last used with weights `gc_threshold_k` versions before
        `current_weight_version`; returns how many nodes were removed.

        Raises ValueError for what is no version.
        """
        current = _normalize_version(current_weight_version)
        if current is None:
            raise ValueError("which version is current must be said")
        with self._lock:
            return self.store.collect_versions(current, self.gc_threshold_k)

    def remove(self, text: str) -> bool:
        """Remove what ends with `text` and all that goes on from it. False if nothing ends there."""
        _require_text(text)
        with self._lock:
            return self.store.remove_text(text) > 0

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self.store.clear()
            self.cache_hits = self.cache_misses = 0

    def get_stats(self) -> dict[str, Any]:
        """The figures that `/metrics` shows under `cache`. Hits and misses count lookups."""
        with self._lock:
            lookups = self.cache_hits + self.cache_misses
            return {
                "total_entries": self.store.nodes,
                "cache_hits": self.cache_hits,
                "cache_misses": self.cache_misses,
                "hit_rate": self.cache_hits / lookups if lookups else 0.0,
                "cur_cache_size": self.store.tokens,
                "max_cache_size": self.store.max_tokens,
                "cache_size_mb": self.store.nbytes / 2**20,
                "max_bytes": self.store.memory.max_bytes,
                "gc_threshold_k": self.gc_threshold_k,
            }

    def pretty_print(self) -> str:
        """The tree, drawn."""
        with self._lock:
            return str(self.store)

    def check(self) -> None:
        """Assert that everything adds up."""
        with self._lock:
            self.store.check()

    def count_lookup(self, found: TrajectoryMatch) -> None:
        """Count a lookup, and a use of what it found."""
        if found.tokens:
            self.cache_hits += 1
            self.store.mark_used(found)
        else:
            self.cache_misses += 1

    def make_room(self, tokens: int, version: Version | None) -> None:
        """Before so many more tokens come: where there are too many, old weights' go first."""
        max_tokens = self.store.max_tokens
        if version is not None and max_tokens is not None and self.store.tokens + tokens > max_tokens:
            self.store.collect_versions(version, self.gc_threshold_k)


def _spans_of_versions(sampled: bytes, versions: Sequence[Version | None]) -> Spans:
    prompt = TokenLabel("prompt", 0)
    return spans_from_labels(
        TokenLabel("sampled", 1, version) if made else prompt
        for made, version in zip(sampled, versions, strict=True)
    )


def _require_text(text: str) -> None:
    if not isinstance(text, str):
        raise TypeError(f"a text is a str, not {type(text).__name__}")


def _normalize_version(version: Version | None) -> Version | None:
    """Convert numbers of any library to Python's. Raises ValueError."""
    if version is None or isinstance(version, (int, str)):
        return version
    try:
        return index(version)
    except TypeError:
        raise ValueError(f"a weight version is a whole number or a text, not {version!r:.80}") from None


def _byte_offsets(text: str, offsets: Sequence[int]) -> list[int]:
    """Convert character offsets to UTF-8 byte offsets. Raises ValueError."""
    try:
        offsets = list(map(index, offsets))
    except TypeError as error:
        raise ValueError(f"offsets must be whole numbers: {error}") from None
    if text.isascii():
        return offsets
    ends, start, byte = [], 0, 0
    for end in offsets:
        byte += len(text[start:end].encode("utf-8", "surrogatepass"))
        ends.append(byte)
        start = end
    return ends
