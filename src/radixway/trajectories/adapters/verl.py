"""verl's batch, a `DataProto` as its agent loops make it (verl/experimental/agent_loop; 0.9.1).

prompts             | 0 0 0 | prompt |                                           padded on the left
responses                            | answer | tool's result | answer | 0 0 |   padded on the right
response_mask                        | 1 1 1  | 0 0 0 0       | 1 1 1  | 0 0 |
rollout_log_probs                    | …      | 0             | …      | 0 0 |
input_ids           prompts and responses, and so are attention_mask and position_ids
rm_scores           the reward at the response's last token
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from radixway.trajectories.adapters.sample_record import (
    Sample,
    SampleRecord,
    join_sample_experts,
    read_sample,
)

_DTYPES = {"rollout_log_probs": "float32", "rm_scores": "float32", "routed_experts": "int16"}
"""int64 for all others."""


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
    """One batch of all samples.

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
    told = [read_sample(sample) for sample in samples]
    before = max(one.start for one in told)
    prompt_length = before if prompt_length is None else prompt_length
    if before > prompt_length:
        raise ValueError(f"a prompt has {before} tokens, more than prompt_length {prompt_length}")
    if response_length is None:
        response_length = max(len(one.tokens) - one.start for one in told)
    rows = [_padded_row(one, prompt_length, response_length, pad_token_id) for one in told]
    tensors = {name: [row[name] for row in rows] for name in rows[0]}
    earned = list(rewards) if rewards is not None else [one.reward for one in told]
    if None not in earned:
        tensors["rm_scores"] = [
            _reward_row(one, reward, response_length) for one, reward in zip(told, earned, strict=True)
        ]
    if any(one.experts for one in told):
        tensors["routed_experts"] = [
            _expert_rows(one, experts_shape, prompt_length, response_length) for one in told
        ]
    return VerlBatch(tensors, _non_tensors(told, uids), {})


def _padded_row(
    told: SampleRecord, prompt_length: int, response_length: int, pad: int
) -> dict[str, list[Any]]:
    start, end = told.start, min(len(told.tokens), told.start + response_length)
    left, right = prompt_length - start, response_length - (end - start)
    prompt = [pad] * left + told.tokens[:start]
    response = told.tokens[start:end] + [pad] * right
    attention = [0] * left + [1] * end + [0] * right
    return {
        "prompts": prompt,
        "responses": response,
        "response_mask": told.mask[start:end] + [0] * right,
        "input_ids": prompt + response,
        "attention_mask": attention,
        "position_ids": [max(count - 1, 0) for count in accumulate(attention)],
        "rollout_log_probs": told.logprobs[start:end] + [0.0] * right,
    }


def _reward_row(told: SampleRecord, reward: float | None, response_length: int) -> list[float]:
    last = min(len(told.tokens) - told.start, response_length) - 1
    return [reward or 0.0 if at == last else 0.0 for at in range(response_length)]


def _expert_rows(
    told: SampleRecord, shape: tuple[int, int] | None, prompt_length: int, response_length: int
) -> list[Any]:
    """A row for each position, of zeros where there is padding, and for the last token, which has none."""
    rows = join_sample_experts(told, shape)
    if rows is None or shape is None:
        raise ValueError("some samples have routed experts and others have none")
    layers, each = shape
    none = [[0] * each for _ in range(layers)]
    known: list[Any] = rows.tolist()[: told.start + response_length]
    left = [none] * (prompt_length - told.start)
    return left + known + [none] * (prompt_length + response_length - len(left) - len(known))


def _non_tensors(told: list[SampleRecord], uids: Sequence[Hashable] | None) -> dict[str, list[Any]]:
    steps = [_version_steps(one) for one in told]
    values: dict[str, list[Any]] = {
        "__num_turns__": [2 * one.answers for one in told],  # each answer, and what came before it
        "min_global_steps": [min(numbers) if numbers else None for numbers in steps],
        "max_global_steps": [max(numbers) if numbers else None for numbers in steps],
    }
    if uids is not None:
        values["uid"] = list(uids)
    return values


def _version_steps(told: SampleRecord) -> list[int]:
    """The weight versions, if all of them are numbers."""
    versions = [str(version) for version in told.trained_versions]
    return [int(version) for version in versions] if all(map(str.isdecimal, versions)) else []
