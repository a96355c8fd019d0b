"""Fields of vLLM's and SGLang's requests that this engine knows and does not serve: refused by name.

A field asks for nothing, and is let through, when it is null, false, zero (unless that is a limit) or empty,
or has a value that its engine takes without it (`_NEUTRAL`).
"""

from typing import Any

import msgspec

from radixway.core.http import BadBodyError
from radixway.engine.server.sampling import CommonSamplingFields

_NEUTRAL: dict[str, Any] = {
    "beam_width": 1,
    "modalities": ["text"],
    "thinking_token_budget": -1,
    "verbosity": "medium",
}
_ASKING_AT_ZERO = frozenset({"max_thinking_tokens", "thinking_token_budget"})
"""Limits: of these fields the number 0 asks for something."""


class UnsupportedGenerateFields(msgspec.Struct, kw_only=True):
    """The fields of /generate."""

    audio_data: Any = None
    background: Any = None
    custom_logit_processor: Any = None
    data_parallel_rank: Any = None
    disagg_prefill_dp_rank: Any = None
    encoder_urls: Any = None
    image_data: Any = None
    image_max_dynamic_patch: Any = None
    images_config: Any = None
    input_embeds: Any = None
    kv_hints: Any = None
    lora_id: Any = None
    lora_path: Any = None
    max_dynamic_patch: Any = None
    max_thinking_tokens: Any = None
    min_dynamic_patch: Any = None
    mm_content_hashes: Any = None
    mm_hashes: Any = None
    mm_processor_kwargs: Any = None
    modalities: Any = None
    multi_item_delimiter_indices: Any = None
    need_wait_for_mm_inputs: Any = None
    num_items_assigned: Any = None
    positional_embed_overrides: Any = None
    return_bytes: Any = None
    return_entropy: Any = None
    return_flat_raw_output_top_logprobs: Any = None
    return_flat_raw_top_logprobs: Any = None
    return_hidden_states: Any = None
    return_indexer_topk: Any = None
    return_prompt_token_ids: Any = None
    return_routed_experts: Any = None
    return_sampling_mask: Any = None
    routed_dp_rank: Any = None
    routed_experts_start_len: Any = None
    sampling_logprobs_mode: Any = None
    session_params: Any = None
    token_indices_to_pool: Any = None
    use_audio_in_video: Any = None
    video_config: Any = None
    video_data: Any = None
    video_max_dynamic_patch: Any = None
    watermark: Any = None


class UnsupportedSamplingFields(CommonSamplingFields, kw_only=True):
    """The fields of /generate's `sampling_params`."""

    beam_width: Any = None
    custom_params: Any = None
    watermark: Any = None


class UnsupportedOpenAIFields(CommonSamplingFields, kw_only=True):
    """The fields of chat and completions requests, OpenAI's own among them."""

    audio: Any = None
    custom_logit_processor: Any = None
    custom_params: Any = None
    data_parallel_rank: Any = None
    disagg_prefill_dp_rank: Any = None
    ec_transfer_params: Any = None
    images_config: Any = None
    input_ids: Any = None
    kv_transfer_params: Any = None
    logits_processors: Any = None
    lora_path: Any = None
    max_dynamic_patch: Any = None
    media_io_kwargs: Any = None
    min_dynamic_patch: Any = None
    mm_processor_kwargs: Any = None
    modalities: Any = None
    moderation: Any = None
    prompt_embeds: Any = None
    repetition_detection: Any = None
    return_cached_tokens_details: Any = None
    return_flat_raw_output_top_logprobs: Any = None
    return_hidden_states: Any = None
    return_input_ids_in_sglext: Any = None
    return_meta_info: Any = None
    return_output_ids_in_sglext: Any = None
    return_routed_experts: Any = None
    return_sampling_mask: Any = None
    return_spec_tokens_details: Any = None
    return_token_offsets: Any = None
    routed_dp_rank: Any = None
    routed_experts_prompt_start: Any = None
    routed_experts_start_len: Any = None
    sampling_logprobs_mode: Any = None
    session_params: Any = None
    task: Any = None
    thinking_token_budget: Any = None
    use_audio_in_video: Any = None
    verbosity: Any = None
    video_config: Any = None
    vllm_xargs: Any = None
    watermark: Any = None
    watermarking: Any = None
    web_search_options: Any = None


def refuse_unsupported(body: msgspec.Struct, fields: type[msgspec.Struct], place: str = "") -> None:
    """Raise BadBodyError (400) naming the first field declared in `fields` that `body`, which is at `place`
    in the request, makes use of."""
    for name in fields.__annotations__:
        value = getattr(body, name)
        is_limit = value == 0 and value is not False and name in _ASKING_AT_ZERO
        if (value or is_limit) and value != _NEUTRAL.get(name):
            raise unsupported_field_error(f"{place}{name}")


def unsupported_field_error(param: str, what: str = "") -> BadBodyError:
    """An error for field `param`, which this engine knows but cannot serve."""
    message = f"{param} {what} is not supported".replace("  ", " ")
    return BadBodyError(message, param=param, code="unsupported")
