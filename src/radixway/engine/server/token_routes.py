"""Tokens without an answer: /tokenize, /detokenize and /tokenizer_info, with vLLM's fields and SGLang's."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
from tokenizers import AddedToken

from radixway.engine.server.chat_completions import ChatCompletionBody, render_chat_prompt
from radixway.engine.server.engine_service import EngineService, split_prompts
from radixway.engine.server.http_exchange import HttpExchange


class TokenizeBody(ChatCompletionBody, kw_only=True):
    """A prompt, several, or a conversation: a chat request as it is will do."""

    prompt: str | list[str] | None = None
    return_token_strs: bool | None = None
    """Tokens as the vocabulary writes them."""


class DetokenizeBody(msgspec.Struct, kw_only=True):
    """Token ids, or several lists of them."""

    tokens: list[int | list[int]]
    model: str | None = None
    skip_special_tokens: bool | None = None
    """SGLang's field; without it they are kept, as in vLLM."""


MAX_TOKENIZE_BYTES = 2 * 1024 * 1024  # of text: some two seconds of a core and 400 MB


async def tokenize(service: EngineService, exchange: HttpExchange, body: TokenizeBody) -> None:
    """Text or conversation to token ids, also where they are more than the context holds."""
    special = body.add_special_tokens is not False
    service.check_model(body.model)
    if body.prompt is None:
        size = exchange.body_bytes
        all_ids = [(await render_chat_prompt(service, body, body_bytes=size, must_fit=False)).ids]
    elif body.prompt == "":  # nothing to generate from, but it has a number of tokens
        all_ids = [service.tokenizer.encode("", add_special_tokens=special)]
    else:
        prompts = split_prompts(body.prompt, param="prompt")
        all_ids = await service.encode_prompts(
            prompts, param="prompt", add_special_tokens=special, must_fit=False
        )
    several = isinstance(body.prompt, list)
    counts = [len(ids) for ids in all_ids]
    names = None
    if body.return_token_strs:
        name_token = service.tokenizer.backend.id_to_token
        named = [[name_token(token_id) for token_id in ids] for ids in all_ids]
        names = named if several else named[0]
    reply = {
        "count": counts if several else counts[0],
        "max_model_len": service.engine.model_info.context_length,
        "tokens": all_ids if several else all_ids[0],
        "token_strs": names,
    }
    await exchange.send_json(reply)


async def detokenize(service: EngineService, exchange: HttpExchange, body: DetokenizeBody) -> None:
    """Decode token ids to text, with special tokens unless the body says otherwise.

    `prompt` is vLLM's name of the text. `text`, SGLang's, is there for its path and its field alone: clients
    of vLLM compare the whole reply.
    """
    service.check_model(body.model)
    several = bool(body.tokens) and isinstance(body.tokens[0], list)
    given = split_prompts(body.tokens, param="tokens") if body.tokens else []
    all_ids = await service.encode_prompts(given, param="tokens") or [[]]

    def decode_all() -> list[str]:
        skip = bool(body.skip_special_tokens)
        return [service.tokenizer.decode(ids, skip_special_tokens=skip) for ids in all_ids]

    texts = await service.run_off_loop(decode_all, characters=sum(map(len, all_ids)))
    text = texts if several else texts[0]
    is_sglang = exchange.path.startswith("/v1/") or body.skip_special_tokens is not None
    await exchange.send_json({"prompt": text, "text": text} if is_sglang else {"prompt": text})


async def tokenizer_info(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """Describe the tokenizer as its tokenizer_config.json does, with what that leaves out."""
    config = await asyncio.to_thread(_read_config, Path(service.tokenizer_path))
    tokenizer, context_length = service.tokenizer, service.engine.model_info.context_length
    flags = {name: value for name, value in config.items() if isinstance(value, bool)}
    longest = config.get("model_max_length")
    if not isinstance(longest, int) or not context_length <= longest < _NO_LIMIT:
        longest = context_length
    templates = {name: template.source for name, template in tokenizer.chat_templates.items()}
    added = tokenizer.backend.get_added_tokens_decoder()
    reply = {
        **flags,
        **tokenizer.special_tokens,
        "tokenizer_class": str(config.get("tokenizer_class") or "PreTrainedTokenizerFast"),
        "model_max_length": longest,
        "chat_template": templates.get("default"),
        "added_tokens_decoder": {str(each): _describe_added_token(added[each]) for each in sorted(added)},
    }
    await exchange.send_json(reply)


_NO_LIMIT = 10**15
"""`transformers` writes larger numbers for models whose length is not known."""


def _read_config(directory: Path) -> dict[str, Any]:
    try:
        config = json.loads((directory / "tokenizer_config.json").read_bytes())
    except (OSError, ValueError):  # a GGUF file has none
        return {}
    return config if isinstance(config, dict) else {}


def _describe_added_token(token: AddedToken) -> dict[str, Any]:
    names = ("content", "lstrip", "normalized", "rstrip", "single_word", "special")
    return {name: getattr(token, name) for name in names}
