"""Request fields by which one worker prefills and another takes the KV, in vLLM's and SGLang's form.

Sources:

- vLLM: `tests/v1/kv_connector/nixl_integration/toy_proxy_server.py` and the NixlConnector usage guide
  (docs.vllm.ai). The prefill worker is asked for one token and answers with `kv_transfer_params`, which the
  decode worker is given. It has KV to hand over only if it stopped for length, so stop words are left out
  there and the end of the text is ignored (smg-project/smg#1622).
- SGLang: `sgl-router/py_src/sglang_router/mini_lb.py`. Both workers are asked at once and meet in a room of
  the prefill worker's bootstrap server. A room that is used twice takes both down (sgl-project/sglang#40125),
  so what clients say of rooms is never passed on.
"""

import random
from collections.abc import Container
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType
from yarl import URL

from radixway.core.pipeline import BadRequest, Request
from radixway.routing import Worker

_TO_PREFILL = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}

_FIELDS = ("kv_transfer_params", "bootstrap_host", "bootstrap_port", "bootstrap_room")

_MAX_BOOTSTRAP_ROOM = 2**63 - 2**20
"""SGLang numbers the rooms of a batch upwards from this one; all must be below 2**63."""


class _TransferFields(msgspec.Struct):
    """Fields that only workers and their routers exchange."""

    kv_transfer_params: Raw | UnsetType = UNSET
    bootstrap_host: Raw | UnsetType = UNSET
    bootstrap_port: Raw | UnsetType = UNSET
    bootstrap_room: Raw | UnsetType = UNSET


class _SplitFields(msgspec.Struct):
    """Fields that decide whether a request can be split. Workers check the types."""

    n: Any = 1
    best_of: Any = 1
    prompt: Any = None
    text: Any = None
    input_ids: Any = None
    sampling_params: Any = None
    echo: Any = False
    prompt_logprobs: Any = None
    return_logprob: Any = False
    logprob_start_len: Any = -1
    max_completion_tokens: Any = UNSET


_read_transfer = msgspec.json.Decoder(_TransferFields).decode
_read_shape = msgspec.json.Decoder(_SplitFields).decode


def strip_transfer_fields(request: Request) -> Request:
    """Return the request for one worker alone, without a client's transfer fields, which it would act on."""
    try:
        transfer = _read_transfer(request.raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return request  # the worker refuses it
    if all(getattr(transfer, name) is UNSET for name in _FIELDS):
        return request
    return _copy_with_fields(request, **dict.fromkeys(_FIELDS, UNSET))


def explain_unsplit(request: Request, dialects: Container[str | None]) -> str | None:
    """Explain why one worker should do all of `request`; None if another may prefill its prompt.

    `dialects`: those of the workers that could decode it.
    """
    try:
        shape = _parse_split_fields(request)
    except BadRequest:
        return "its body cannot be read"
    if not request.endpoint.generates:
        return "nothing is decoded for it"
    if request.endpoint.has_token_ids and "sglang" not in dialects and "radixway" not in dialects:
        return "vLLM has no /generate"
    sampling = shape.sampling_params if isinstance(shape.sampling_params, dict) else {}
    if any(count not in (None, 1) for count in (shape.n, shape.best_of, sampling.get("n"))):
        return "it asks for several answers"
    if _batch_size(shape) is not None or isinstance(shape.sampling_params, list):
        return "its prompts come in a list"
    if shape.echo or shape.prompt_logprobs is not None or _wants_prompt_logprobs(shape):
        return "it asks for the prompt's log-probabilities"
    return None


def build_vllm_prefill(request: Request) -> Request:
    """Build the prefill request: one token, and then keep the KV until it is fetched."""
    fields: dict[str, Any] = {
        "kv_transfer_params": _TO_PREFILL,
        "stream": False,
        "max_tokens": 1,
        "ignore_eos": True,
    }
    if _parse_split_fields(request).max_completion_tokens is not UNSET:
        fields["max_completion_tokens"] = 1
    unwanted = ("stream_options", "min_tokens", "min_completion_tokens", "stop", "stop_token_ids")
    return _copy_with_fields(request, **fields, **dict.fromkeys(unwanted, UNSET))


def build_vllm_decode(request: Request, prefilled: bytes) -> Request | None:
    """Build the decode request: fetch the KV as the prefill worker's answer says; None if it does not say."""
    try:
        params = _read_transfer(prefilled).kv_transfer_params
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if isinstance(params, UnsetType) or not bytes(params).startswith(b"{"):
        return None
    return _copy_with_fields(strip_transfer_fields(request), kv_transfer_params=params)


def build_sglang_pair(request: Request, prefill: Worker) -> Request:
    """Build both requests: they meet in a fresh room at the prefill worker."""
    host = URL(prefill.url).raw_host or ""
    fields: dict[str, Any] = {
        "bootstrap_host": f"[{host}]" if ":" in host else host,
        "bootstrap_port": prefill.bootstrap_port,
        "bootstrap_room": random.randrange(_MAX_BOOTSTRAP_ROOM),
    }
    size = _batch_size(_parse_split_fields(request)) if request.endpoint.has_token_ids else None
    if size is not None:
        fields = {name: [value] * size for name, value in fields.items()}
        fields["bootstrap_room"] = [random.randrange(_MAX_BOOTSTRAP_ROOM) for _ in range(size)]
    return _copy_with_fields(request, **fields)


def _parse_split_fields(request: Request) -> _SplitFields:
    try:
        return _read_shape(request.raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"the body is not valid JSON: {error}") from None


def _copy_with_fields(request: Request, **fields: Any) -> Request:
    """Return a copy for one worker; the original stays for the next attempt."""
    copy = request.copy()
    copy.edit(**fields)
    return copy


def _batch_size(shape: _SplitFields) -> int | None:
    """Return the number of prompts in a body's list; None for one prompt."""
    for prompts in (shape.prompt, shape.text, shape.input_ids):
        if isinstance(prompts, list) and prompts and not isinstance(prompts[0], int):
            return len(prompts)
    return None


def _wants_prompt_logprobs(shape: _SplitFields) -> bool:
    start = shape.logprob_start_len
    return bool(shape.return_logprob) and isinstance(start, int) and start >= 0
