"""slime's `Sample` (slime/utils/types.py; 0.2.2 to 0.4.0).

tokens                  | prompt          | answer     | tool's result | answer      |
response_length                           |←─────────────────────────────────────→|
loss_mask                                 | 1 1 1 1 1  | 0 0 0 0       | 1 1 1 1     |
rollout_log_probs                         | sampled    | 0             | sampled     |
rollout_routed_experts  one row for each token but the last
"""

from collections.abc import Mapping
from typing import Any

from radixway.trajectories.adapters.sample_record import (
    Sample,
    SampleRecord,
    join_sample_experts,
    read_sample,
)

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
    told = read_sample(sample)
    start = told.start
    return {
        "index": index,
        "group_index": group_index,
        "rollout_id": rollout_id,
        "prompt": prompt if prompt is not None else _prompt_messages(told),
        "tokens": told.tokens,
        "response": response if response is not None else _response_text(told),
        "response_length": len(told.tokens) - start,
        "label": label,
        "reward": reward if reward is not None else told.reward,
        "loss_mask": told.mask[start:],
        "weight_versions": [str(version) for version in told.trained_versions],
        "rollout_log_probs": told.logprobs[start:],
        "rollout_routed_experts": join_sample_experts(told, experts_shape),
        "status": _slime_status(finish_reason if finish_reason is not None else told.finish_reason),
        "metadata": told.metadata,
        "session_id": told.session_id,
    }


def _slime_status(reason: str | Mapping[str, Any] | None) -> str:
    if isinstance(reason, Mapping):
        reason = reason.get("type")
    return _STATUS.get(reason or "stop", "failed")


def _prompt_messages(told: SampleRecord) -> str | list[dict[str, Any]]:
    roles = [message.get("role") for message in told.messages]
    return told.messages[: roles.index("assistant")] if "assistant" in roles else ""


def _response_text(told: SampleRecord) -> str:
    content = told.messages[-1].get("content") if told.messages else None
    return content if isinstance(content, str) else ""
