"""Samples in the layouts of trainers: slime's `Sample` and verl's `DataProto`.

They take what `/retrieve_from_text` and `/sessions/{id}/samples` answer, as decoded from JSON, and import
nothing of slime, verl, numpy or torch.

slime (slime/utils/types.py; 0.2.2 to 0.4.0)

    tokens                  | prompt          | answer     | tool's result | answer      |
    response_length                           |←─────────────────────────────────────→|
    loss_mask                                 | 1 1 1 1 1  | 0 0 0 0       | 1 1 1 1     |
    rollout_log_probs                         | sampled    | 0             | sampled     |
    rollout_routed_experts  one row for each token but the last

verl, as its agent loops make it (verl/experimental/agent_loop; 0.9.1)

    prompts             | 0 0 0 | prompt |                                           padded on the left
    responses                            | answer | tool's result | answer | 0 0 |   padded on the right
    response_mask                        | 1 1 1  | 0 0 0 0       | 1 1 1  | 0 0 |
    rollout_log_probs                    | …      | 0             | …      | 0 0 |
    input_ids           prompts and responses, and so are attention_mask and position_ids
    rm_scores           the reward at the response's last token
"""

from base64 import b64decode
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any, NamedTuple, TypeAlias

Sample: TypeAlias = Mapping[str, Any]
"""An answer of `/retrieve_from_text`, or one of `/sessions/{id}/samples`."""


class AnswerExperts(NamedTuple):
    """Routed experts of one answer: rows of int32 up to and without the token at `end`."""

    start: int | None
    """Position of the first row; None: as far before `end` as there are rows."""
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
        versions = [
            version
            for version, one in zip(self.versions, self.mask, strict=True)
            if one and version is not None
        ]
        return [version for version, _ in groupby(versions)]


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


def join_sample_experts(record: SampleRecord, shape: tuple[int, int] | None) -> memoryview | None:
    """Routed experts of all tokens but the last, as int32 of [tokens - 1, layers, experts per token].

    `shape` is (layers, experts per token). Where a later answer has rows of earlier tokens again, the earlier
    ones stay: sampling used those. Raises ValueError for rows that do not fit, or are missing.
    """
    if not record.experts:
        return None
    if shape is None:
        raise ValueError("the sample has routed experts: give experts_shape, (layers, experts per token)")
    row = 4 * shape[0] * shape[1]
    joined = bytearray()
    for start, end, rows in record.experts:
        count, rest = divmod(len(rows), row)
        first = end - count if start is None else start
        # Some workers add the last token's.
        if rest or first < 0 or count not in (end - first, end - first + 1):
            message = f"{len(rows)} bytes of routed experts are not rows of {shape} for {end - first} tokens"
            raise ValueError(message)
        known = len(joined) // row
        if first > known:
            raise ValueError(f"routed experts of tokens {known} to {first} are missing")
        joined += rows[(known - first) * row : (end - first) * row]
    if len(joined) != row * (len(record.tokens) - 1):
        missing = f"{len(joined) // row} to {len(record.tokens) - 1}"
        raise ValueError(f"routed experts of tokens {missing} are missing")
    return memoryview(joined).cast("i", (len(record.tokens) - 1, *shape))


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


_STATUS = {"stop": "completed", "tool_calls": "completed", "length": "truncated", "abort": "aborted"}


def to_slime(
    sample: Sample,
    *,
    index: int | None = None,
    group_index: int | None = None,
    rollout_id: int | None = None,
    prompt: str | list[dict[str, Any]] | None = None,
    response: str | None = None,
    label: str | None = None,
    reward: float | dict[str, Any] | None = None,
    finish_reason: str | Mapping[str, Any] | None = None,
    experts_shape: tuple[int, int] | None = None,
) -> dict[str, Any]:
    """The dictionary that slime's `Sample.from_dict` takes.

    Samples of one session are parts of one rollout: give them the same `rollout_id`, or slime counts them as
    so many. What is not given is taken from the sample as far as it says: the prompt's messages, the last
    answer's content, the reward, and the finish reason (`meta_info.finish_reason` as SGLang has it will do;
    without one the status is `completed`). Routed experts are a memoryview of int32 that `numpy.asarray`
    makes an array of. Raises ValueError: see `read_sample` and `join_sample_experts`.
    """
    record = read_sample(sample)
    start = record.start
    return {
        "index": index,
        "group_index": group_index,
        "rollout_id": rollout_id,
        "prompt": prompt if prompt is not None else _prompt_messages(record),
        "tokens": record.tokens,
        "response": response if response is not None else _response_text(record),
        "response_length": len(record.tokens) - start,
        "label": label,
        "reward": reward if reward is not None else record.reward,
        "loss_mask": record.mask[start:],
        "weight_versions": [str(version) for version in record.trained_versions],
        "rollout_log_probs": record.logprobs[start:],
        "rollout_routed_experts": join_sample_experts(record, experts_shape),
        "status": _slime_status(finish_reason if finish_reason is not None else record.finish_reason),
        "metadata": record.metadata,
        "session_id": record.session_id,
    }


def _slime_status(reason: str | Mapping[str, Any] | None) -> str:
    if isinstance(reason, Mapping):
        reason = reason.get("type")
    return _STATUS.get(reason or "stop", "failed")


def _prompt_messages(record: SampleRecord) -> str | list[dict[str, Any]]:
    roles = [message.get("role") for message in record.messages]
    return record.messages[: roles.index("assistant")] if "assistant" in roles else ""


def _response_text(record: SampleRecord) -> str:
    content = record.messages[-1].get("content") if record.messages else None
    return content if isinstance(content, str) else ""


_DTYPES = {"rollout_log_probs": "float32", "rm_scores": "float32", "routed_experts": "int16"}
"""Others are int64."""


@dataclass(frozen=True, slots=True)
class VerlBatch:
    """The three parts of a `DataProto`, as lists.

    `DataProto.from_dict(batch.arrays(torch), batch.non_tensors, batch.meta_info)` makes one.
    """

    tensors: dict[str, list[Any]]
    """By name, a row for each sample, all of one length."""
    non_tensors: dict[str, list[Any]]
    """By name, a value for each sample."""
    meta_info: dict[str, Any]

    def arrays(self, library: Any) -> dict[str, Any]:
        """The tensors as arrays of `library`: torch, numpy, or what else has `asarray` and these dtypes."""
        return {
            name: library.asarray(rows, dtype=getattr(library, _DTYPES.get(name, "int64")))
            for name, rows in self.tensors.items()
        }


def to_verl(
    samples: Sequence[Sample],
    *,
    prompt_length: int | None = None,
    response_length: int | None = None,
    pad_token_id: int = 0,
    rewards: Sequence[float] | None = None,
    uids: Sequence[Hashable] | None = None,
    experts_shape: tuple[int, int] | None = None,
) -> VerlBatch:
    """Return one batch of all samples.

    Lengths are verl's `rollout.prompt_length` and `response_length`, by default those of the longest; as in
    verl's loops a longer response is cut. `rewards` go before those of the samples; `rm_scores` is there if
    every sample has one. `uids` say which samples answer the same prompt. Weight versions that are numbers
    become `min_global_steps` and `max_global_steps`.

    Raises ValueError for no samples, for a longer prompt, for lists of other lengths, and as `read_sample`
    and `join_sample_experts` do.
    """
    if not samples:
        raise ValueError("there are no samples")
    for name, given in (("rewards", rewards), ("uids", uids)):
        if given is not None and len(given) != len(samples):
            raise ValueError(f"there are {len(samples)} samples and {len(given)} {name}")
    records = [read_sample(sample) for sample in samples]
    before = max(record.start for record in records)
    prompt_length = before if prompt_length is None else prompt_length
    if before > prompt_length:
        raise ValueError(f"a prompt has {before} tokens, more than prompt_length {prompt_length}")
    if response_length is None:
        response_length = max(len(record.tokens) - record.start for record in records)
    rows = [_padded_row(record, prompt_length, response_length, pad_token_id) for record in records]
    tensors = {name: [row[name] for row in rows] for name in rows[0]}
    earned = list(rewards) if rewards is not None else [record.reward for record in records]
    if None not in earned:
        pairs = zip(records, earned, strict=True)
        tensors["rm_scores"] = [_reward_row(record, reward, response_length) for record, reward in pairs]
    if any(record.experts for record in records):
        tensors["routed_experts"] = [
            _expert_rows(record, experts_shape, prompt_length, response_length) for record in records
        ]
    return VerlBatch(tensors, _non_tensors(records, uids), {})


def _padded_row(
    record: SampleRecord, prompt_length: int, response_length: int, pad: int
) -> dict[str, list[Any]]:
    start, end = record.start, min(len(record.tokens), record.start + response_length)
    left, right = prompt_length - start, response_length - (end - start)
    prompt = [pad] * left + record.tokens[:start]
    response = record.tokens[start:end] + [pad] * right
    attention = [0] * left + [1] * end + [0] * right
    return {
        "prompts": prompt,
        "responses": response,
        "response_mask": record.mask[start:end] + [0] * right,
        "input_ids": prompt + response,
        "attention_mask": attention,
        "position_ids": [max(count - 1, 0) for count in accumulate(attention)],
        "rollout_log_probs": record.logprobs[start:end] + [0.0] * right,
    }


def _reward_row(record: SampleRecord, reward: float | None, response_length: int) -> list[float]:
    last = min(len(record.tokens) - record.start, response_length) - 1
    return [reward or 0.0 if at == last else 0.0 for at in range(response_length)]


def _expert_rows(
    record: SampleRecord, shape: tuple[int, int] | None, prompt_length: int, response_length: int
) -> list[Any]:
    """Return a row per position, zeros for padding and for the last token, which has none."""
    rows = join_sample_experts(record, shape)
    if rows is None or shape is None:
        raise ValueError("some samples have routed experts and others have none")
    layers, each = shape
    none = [[0] * each for _ in range(layers)]
    known: list[Any] = rows.tolist()[: record.start + response_length]
    left = [none] * (prompt_length - record.start)
    return left + known + [none] * (prompt_length + response_length - len(left) - len(known))


def _non_tensors(records: list[SampleRecord], uids: Sequence[Hashable] | None) -> dict[str, list[Any]]:
    steps = [_version_steps(record) for record in records]
    values: dict[str, list[Any]] = {
        "__num_turns__": [2 * record.answers for record in records],  # each answer, and what came before it
        "min_global_steps": [min(numbers) if numbers else None for numbers in steps],
        "max_global_steps": [max(numbers) if numbers else None for numbers in steps],
    }
    if uids is not None:
        values["uid"] = list(uids)
    return values


def _version_steps(record: SampleRecord) -> list[int]:
    """Return the weight versions if all are numbers."""
    versions = [str(version) for version in record.trained_versions]
    return [int(version) for version in versions] if all(map(str.isdecimal, versions)) else []
