"""What a request will probably use, before anybody has counted: reserved, and replaced by what it did use."""

from __future__ import annotations

from typing import Any

import msgspec

from radixway.pipeline import Request, Used

BYTES_PER_TOKEN = 4
USUAL_COMPLETION_TOKENS = 256
"""Of an answer that the request does not limit."""
_MOST_PROMPT_TOKENS = 32_768
"""Bodies may carry images, whose bytes say nothing of tokens."""


class _Sampling(msgspec.Struct):
    max_new_tokens: int | None = None
    n: int | None = None


class _Asked(msgspec.Struct):
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n: int | None = None
    prompt: Any = None
    text: Any = None
    sampling_params: _Sampling | list[_Sampling] | None = None


_read = msgspec.json.Decoder(_Asked).decode


def expected_use(raw: bytes) -> Used:
    """Of a body: its prompts by their bytes, and as many tokens of answers as it asks for at most."""
    try:
        asked = _read(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        asked = _Asked()
    sampling = asked.sampling_params
    if isinstance(sampling, list):
        sampling = sampling[0] if sampling else None
    most = asked.max_completion_tokens or asked.max_tokens or (sampling and sampling.max_new_tokens)
    copies = asked.n or (sampling and sampling.n) or 1
    prompts = max(_count(asked.prompt), _count(asked.text))
    return Used(prompt_size(raw), (most or USUAL_COMPLETION_TOKENS) * copies * prompts, estimated=True)


def used_by_size(request: Request, answer_bytes: int) -> Used:
    """Of a request whose worker reported nothing: the prompt as routing counted it, the rest by bytes."""
    prompt = request.prompt_tokens if request.prompt_tokens is not None else prompt_size(request.raw)
    return Used(prompt, answer_bytes // BYTES_PER_TOKEN, estimated=True)


def prompt_size(raw: bytes) -> int:
    """Tokens of a body's prompt, by its bytes."""
    return min(len(raw) // BYTES_PER_TOKEN, _MOST_PROMPT_TOKENS)


def _count(prompts: Any) -> int:
    """Several prompts in one request are told from one that is a list of token ids."""
    several = isinstance(prompts, list) and prompts and not isinstance(prompts[0], int)
    return len(prompts) if several else 1
