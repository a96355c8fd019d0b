"""vLLM's cases of `/tokenize`, `/detokenize` and `/tokenizer_info`."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from support.ported_cases import ported

MODEL = "tutored"
SOURCE = "tests/entrypoints/serve/tokenize/test_tokenization.py"
LENGTH = 8192
PARTS = [
    {"role": "user", "content": "Hi there!"},
    {"role": "assistant", "content": "Nice to meet you!"},
    {"role": "user", "content": "Can I ask a question? vllm1"},
]
WEATHER = {
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"location": {"type": "string"}}},
}
KINDS = {
    "add_bos_token": bool,
    "add_prefix_space": bool,
    "clean_up_tokenization_spaces": bool,
    "split_special_tokens": bool,
    "bos_token": str,
    "eos_token": str,
    "pad_token": str,
    "unk_token": str,
    "chat_template": str,
    "errors": str,
    "model_max_length": int,
    "additional_special_tokens": list,
    "added_tokens_decoder": dict,
}


async def post(http: httpx.AsyncClient, path: str, **fields: Any) -> dict[str, Any]:
    response = await http.post(path, json={"model": MODEL} | fields)
    response.raise_for_status()
    return response.json()


async def tokenizes(http: httpx.AsyncClient, tokens: list[int], **fields: Any) -> None:
    """Check that `fields` are tokenized into `tokens`."""
    result = await post(http, "/tokenize", **fields)
    assert result["tokens"] == tokens
    assert result["count"] == len(tokens)
    assert result["max_model_len"] == LENGTH
    assert result["token_strs"] is None


async def tokenizes_chats(
    http: httpx.AsyncClient, tokenizer: Any, conversation: list[dict[str, str]], **fields: Any
) -> None:
    """Check a chat with and without the prompt of an answer, and one that is continued."""
    for special in (False, True):
        for prompted, continued in ((False, False), (False, True), (True, False)):
            messages = [*conversation]
            if continued:
                messages.append({"role": "assistant", "content": "Sure,"})
            text = tokenizer.apply_chat_template(
                messages,
                add_generation_prompt=prompted,
                continue_final_message=continued,
                tokenize=False,
                **fields,
            )
            await tokenizes(
                http,
                tokenizer.encode(text, add_special_tokens=special),
                add_generation_prompt=prompted,
                continue_final_message=continued,
                add_special_tokens=special,
                messages=messages,
                **fields,
            )


@ported(SOURCE, "test_tokenize_completions")
async def test_a_text(http: httpx.AsyncClient, tokenizer):
    prompt = "vllm1 This is a test prompt."
    for special in (False, True):
        tokens = tokenizer.encode(prompt, add_special_tokens=special)
        await tokenizes(http, tokens, prompt=prompt, add_special_tokens=special)


@ported(SOURCE, "test_tokenize_chat")
async def test_a_chat(http: httpx.AsyncClient, tokenizer):
    await tokenizes_chats(http, tokenizer, PARTS)


@ported(SOURCE, "test_tokenize_chat_with_tools")
async def test_a_chat_with_tools(http: httpx.AsyncClient, tokenizer):
    question = [{"role": "user", "content": "What's the weather like in Paris today?"}]
    await tokenizes_chats(http, tokenizer, question, tools=[{"type": "function", "function": WEATHER}])


@ported(SOURCE, "test_tokenize_with_return_token_strs")
async def test_tokens_as_texts(http: httpx.AsyncClient, tokenizer):
    prompt = "This is a token_strs test prompt! vllm1"
    result = await post(http, "/tokenize", prompt=prompt, return_token_strs=True)
    tokens = tokenizer.encode(prompt, add_special_tokens=True)
    assert result["tokens"] == tokens
    assert result["count"] == len(tokens)
    assert result["max_model_len"] == LENGTH
    assert result["token_strs"] == tokenizer.convert_ids_to_tokens(tokens)


@ported(SOURCE, "test_detokenize")
async def test_tokens_become_their_text(http: httpx.AsyncClient, tokenizer):
    prompt = "This is a test prompt. vllm1"
    tokens = tokenizer.encode(prompt, add_special_tokens=False)
    assert await post(http, "/detokenize", tokens=tokens) == {"prompt": prompt}


@pytest.fixture
async def info(http: httpx.AsyncClient) -> dict[str, Any]:
    response = await http.get("/tokenizer_info")
    response.raise_for_status()
    return response.json()


@ported(SOURCE, "test_tokenizer_info_basic")
async def test_the_tokenizers_class(info: dict[str, Any]):
    assert isinstance(info["tokenizer_class"], str)
    assert info["tokenizer_class"]


@ported(SOURCE, "test_tokenizer_info_schema")
async def test_the_kinds_of_what_is_told(info: dict[str, Any]):
    for name, kind in KINDS.items():
        if info.get(name) is not None:
            assert isinstance(info[name], kind), name


@ported(SOURCE, "test_tokenizer_info_consistency_with_tokenize")
async def test_the_tokenizer_takes_what_the_model_takes(http: httpx.AsyncClient, info: dict[str, Any]):
    result = await post(http, "/tokenize", prompt="Hello world!")
    if info.get("model_max_length") and result.get("max_model_len"):
        assert info["model_max_length"] >= result["max_model_len"]


@ported(SOURCE, "test_tokenizer_info_chat_template")
async def test_the_chat_template(info: dict[str, Any]):
    if info.get("chat_template"):
        assert isinstance(info["chat_template"], str)
        assert info["chat_template"].strip()
