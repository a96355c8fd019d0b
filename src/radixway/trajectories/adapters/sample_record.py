"""A sample as both of our endpoints return it, in one form.

                     /retrieve_from_text      /sessions/{id}/samples
log-probabilities    rollout_logp             logprobs, null where the worker told none
routed experts       {end, data}              {call, start, end, data}
reward, messages     –                        reward, messages
"""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

Sample: TypeAlias = Mapping[str, Any]
"""An answer of `/retrieve_from_text`, or one of `/sessions/{id}/samples`."""


class AnswerExperts(NamedTuple):
    """Routed experts of one answer: rows of int32 up to and without the token at `end`."""

    start: int | None
    """Where the first row is; None: as far before `end` as there are rows."""
    end: int
    rows: bytes


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """A sample, checked. Lists are per token."""

    tokens: list[int]
    mask: list[int]
    logprobs: list[float]
    versions: list[int | str | None]
    start: int
    """The first token that the model sampled: the response begins there."""
    answers: int
    """Runs of sampled tokens."""
    experts: list[AnswerExperts]
    reward: float | None
    finish_reason: str | None
    session_id: str | None
    messages: list[dict[str, Any]]
    metadata: dict[str, Any]

    @property
    def trained_versions(self) -> list[int | str]:
        """The weight versions of the tokens to train on, in order, a new entry for each change."""
        told = [
            version
            for version, one in zip(self.versions, self.mask, strict=True)
            if one and version is not None
        ]
        return [version for version, _ in groupby(told)]


def read_sample(sample: Sample) -> SampleRecord:
    """Check a sample. Raises ValueError: not exact, nothing of it sampled, or lists that do not fit."""
    if sample.get("exact") is not True:
        raise ValueError("the sample is not exact: its tokens may not be those that were sampled")
    tokens, mask = _checked_list(sample, "tokens"), _checked_list(sample, "loss_mask")
    logprobs = _checked_list(sample, "logprobs" if "logprobs" in sample else "rollout_logp")
    versions = _checked_list(sample, "versions")
    for name, values in (("loss_mask", mask), ("log-probabilities", logprobs), ("versions", versions)):
        if len(values) != len(tokens):
            raise ValueError(f"the sample has {len(tokens)} tokens and {len(values)} {name}")
    if None in logprobs:
        raise ValueError("the sample lacks log-probabilities")
    answers = _answer_starts(_checked_list(sample, "spans"))
    if not answers:
        raise ValueError("nothing of the sample was sampled")
    return SampleRecord(
        tokens,
        mask,
        logprobs,
        versions,
        answers[0],
        len(answers),
        [
            AnswerExperts(part.get("start"), part["end"] - ("start" not in part), b64decode(part["data"]))
            for part in sample.get("routed_experts") or ()
        ],
        sample.get("reward"),
        sample.get("finish_reason"),
        sample.get("session_id"),
        list(sample.get("messages") or ()),
        dict(sample.get("metadata") or {}),
    )


def join_sample_experts(told: SampleRecord, shape: tuple[int, int] | None) -> memoryview | None:
    """Routed experts of all tokens but the last, as int32 of [tokens - 1, layers, experts per token].

    `shape` is (layers, experts per token). Where a later answer has rows of earlier tokens again, the earlier
    ones stay: sampling used those. Raises ValueError for rows that do not fit, or are missing.
    """
    if not told.experts:
        return None
    if shape is None:
        raise ValueError("the sample has routed experts: give experts_shape, (layers, experts per token)")
    row = 4 * shape[0] * shape[1]
    joined = bytearray()
    for start, end, rows in told.experts:
        count, rest = divmod(len(rows), row)
        first = end - count if start is None else start
        if (
            rest or first < 0 or count not in (end - first, end - first + 1)
        ):  # some workers add the last token's
            raise ValueError(
                f"{len(rows)} bytes of routed experts are not rows of {shape} for {end - first} tokens"
            )
        known = len(joined) // row
        if first > known:
            raise ValueError(f"routed experts of tokens {known} to {first} are missing")
        joined += rows[(known - first) * row : (end - first) * row]
    if len(joined) != row * (len(told.tokens) - 1):
        raise ValueError(
            f"routed experts of tokens {len(joined) // row} to {len(told.tokens) - 1} are missing"
        )
    return memoryview(joined).cast("i", (len(told.tokens) - 1, *shape))


def _answer_starts(spans: Sequence[Mapping[str, Any]]) -> list[int]:
    begins: list[int] = []
    before = None
    for span in spans:
        source = span["source"]
        if source == "sampled" and before != "sampled":
            begins.append(span["start"])
        before = source
    return begins


def _checked_list(sample: Sample, name: str) -> list[Any]:
    values = sample.get(name)
    if not isinstance(values, list):
        raise ValueError(f"the sample has no list {name!r}")
    return values
