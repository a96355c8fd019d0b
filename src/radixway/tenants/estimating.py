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


_MOST_TOKENS = 10**12
"""Whatever a request asks for: more than any limit, and small enough to be multiplied by a price."""


class _Asked(msgspec.Struct):
    # Wrong types are the endpoint's, or the worker's, to refuse: what makes sense is counted all the same.
    max_tokens: Any = None
    max_completion_tokens: Any = None
    n: Any = None
    best_of: Any = None
    prompt: Any = None
    text: Any = None
    input_ids: msgspec.Raw = msgspec.Raw(b"")
    sampling_params: Any = None


_read = msgspec.json.Decoder(_Asked).decode


def expected_use(raw: bytes, *, generates: bool = True) -> Used:
    """Of a body: its prompts by their bytes, and as many tokens of answers as it asks for at most.

    `generates`: whether a model writes the reply; else there are no tokens of answers.
    """
    if not generates:
        return Used(prompt_size(raw), 0, estimated=True)
    try:
        asked = _read(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        asked = _Asked()
    given = asked.sampling_params
    sampling = [each for each in (given if isinstance(given, list) else [given]) if isinstance(each, dict)]
    longest = max((_number(each.get("max_new_tokens")) for each in sampling), default=0)
    most = _number(asked.max_completion_tokens) or _number(asked.max_tokens) or longest
    copies = max(_number(asked.n), _number(asked.best_of), *(_number(each.get("n")) for each in sampling), 1)
    prompts = max(_count(asked.prompt), _count(asked.text), bytes(asked.input_ids).count(b"[") - 1, 1)
    answers = min((most or USUAL_COMPLETION_TOKENS) * copies * prompts, _MOST_TOKENS)
    return Used(prompt_size(raw), answers, estimated=True)


def used_by_size(request: Request, answer_bytes: int) -> Used:
    """Of a request whose worker reported nothing: the prompt as routing counted it, the rest by bytes."""
    prompt = request.prompt_tokens if request.prompt_tokens is not None else prompt_size(request.raw)
    answer = answer_bytes // BYTES_PER_TOKEN if request.endpoint.generates else 0
    return Used(prompt, answer, estimated=True)


def prompt_size(raw: bytes) -> int:
    """Tokens of a body's prompt, by its bytes."""
    return min(len(raw) // BYTES_PER_TOKEN, _MOST_PROMPT_TOKENS)


def _count(prompts: Any) -> int:
    """Several prompts in one request are told from one that is a list of token ids."""
    several = isinstance(prompts, list) and prompts and not isinstance(prompts[0], int)
    return len(prompts) if several else 1


def _number(value: Any) -> int:
    """A count that a body gives, at a bearable size; 0 for what is none. It never lowers what is reserved."""
    return int(min(max(value, 0), _MOST_TOKENS)) if isinstance(value, int | float) else 0
