"""/tokenize and /detokenize, with vLLM's fields and SGLang's."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers.processors import TemplateProcessing

from support.server_served import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")

TEXT = "Hello 你好 😀<|im_end|>"


async def test_text_becomes_ids_and_text_again(served: Served) -> None:
    reply = (await served.post("/tokenize", {"model": "radixway-guide", "prompt": TEXT})).json()
    assert reply["tokens"] == served.engine.tokenizer.encode(TEXT)
    assert reply["count"] == len(reply["tokens"]) and reply["max_model_len"] == 256
    assert reply["token_strs"] is None
    back = await served.post("/detokenize", {"tokens": reply["tokens"]})
    assert back.json() == {"prompt": TEXT}  # the whole reply, as clients of vLLM compare it
    back = await served.post("/v1/detokenize", {"tokens": reply["tokens"]})
    assert back.json() == {"prompt": TEXT, "text": TEXT}
    skipped = await served.post("/detokenize", {"tokens": reply["tokens"], "skip_special_tokens": True})
    assert skipped.json()["text"] == TEXT.removesuffix("<|im_end|>")


async def test_several_texts_become_lists(served: Served) -> None:
    reply = (await served.post("/v1/tokenize", {"prompt": ["a", "b c"], "return_token_strs": True})).json()
    assert reply["count"] == [len(ids) for ids in reply["tokens"]]
    assert reply["token_strs"] == [["a"], ["b", "Ġc"]]  # as the vocabulary writes them
    assert (await served.post("/tokenize", {"prompt": "b c"})).json()["token_strs"] is None
    back = (await served.post("/detokenize", {"tokens": reply["tokens"]})).json()
    assert back["prompt"] == ["a", "b c"]


async def test_a_conversation_becomes_the_ids_that_chat_would_use(served: Served) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "temperature": 0.5}
    reply = (await served.post("/tokenize", body)).json()
    await served.post("/v1/chat/completions", body)
    assert reply["tokens"] == served.engine.submitted[0][0]


@pytest.mark.parametrize("tools", [None, [{"type": "function", "function": {"name": "get_weather"}}]])
@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize(("begins", "continues"), [(False, False), (True, False), (False, True)])
async def test_a_conversation_is_tokenized_as_transformers_would(
    says: Served, tools: Any, special: bool, begins: bool, continues: bool
) -> None:
    tokenizer = says.engine.tokenizer
    wrap = TemplateProcessing(single="<|im_start|> $A", special_tokens=[("<|im_start|>", 1)])
    tokenizer.backend.post_processor, plain = wrap, tokenizer.backend.post_processor
    try:
        messages = [{"role": "user", "content": "Hi there!"}, {"role": "assistant", "content": "Sure,"}]
        options = {"add_generation_prompt": begins, "continue_final_message": continues}
        text = tokenizer.render(messages, tools=tools, **options)
        reply = await says.post(
            "/tokenize", {"messages": messages, "tools": tools, "add_special_tokens": special, **options}
        )
        assert reply.json()["tokens"] == tokenizer.encode(text, add_special_tokens=special)
        by_default = await says.post("/tokenize", {"messages": messages, "tools": tools, **options})
        assert by_default.json()["tokens"] == tokenizer.encode(text, add_special_tokens=False)
    finally:
        tokenizer.backend.post_processor = plain


async def test_the_tokenizer_describes_itself(served: Served) -> None:
    info = (await served.http.get("/tokenizer_info")).json()
    tokenizer = served.engine.tokenizer
    assert info["tokenizer_class"] and info["model_max_length"] >= 256
    assert info["chat_template"] == tokenizer.chat_templates["default"].source
    assert info["eos_token"] == tokenizer.special_tokens["eos_token"]
    eos = info["added_tokens_decoder"][str(served.engine.eos)]
    assert (eos["content"], eos["special"]) == (info["eos_token"], True)


async def test_a_tokenizer_without_a_configuration_describes_itself_too(
    served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(served.app.service, "tokenizer_path", str(tmp_path))
    info = (await served.http.get("/tokenizer_info")).json()
    assert (info["tokenizer_class"], info["model_max_length"]) == ("PreTrainedTokenizerFast", 256)
    config = {"model_max_length": 10**30, "add_prefix_space": False, "tokenizer_class": "Qwen2Tokenizer"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    info = (await served.http.get("/tokenizer_info")).json()
    assert (info["tokenizer_class"], info["model_max_length"]) == ("Qwen2Tokenizer", 256)
    assert info["add_prefix_space"] is False


async def test_special_tokens_are_added_to_a_conversation_where_that_is_asked_for(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    added: list[bool] = []
    encode = served.engine.tokenizer.encode

    def record(text: str, *, add_special_tokens: bool = True) -> list[int]:
        added.append(add_special_tokens)
        return encode(text, add_special_tokens=add_special_tokens)

    monkeypatch.setattr(served.app.service.tokenizer, "encode", record)
    body = {"messages": [{"role": "user", "content": "hi"}]}
    for special in (None, False, True):
        await served.post("/tokenize", {**body, "add_special_tokens": special})
    assert added == [False, False, True]


async def test_more_than_the_context_holds_is_counted_too(served: Served) -> None:
    text = "hello " * 2_000
    for body in ({"prompt": text}, {"messages": [{"role": "user", "content": text}]}):
        assert (await served.post("/tokenize", body)).json()["count"] > 2_000


async def test_what_would_take_too_long_is_refused(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served.app.service, "max_body_bytes", 4 * 1024 * 1024)
    response = await served.post("/tokenize", {"prompt": "x" * 3 * 1024 * 1024})
    assert response.status_code == 413
    assert response.json()["error"]["code"] == "body_too_large"
    unread = await served.http.post("/tokenize", content=b"[" * 3 * 1024 * 1024)
    assert unread.status_code == 413  # refused before it is decoded


async def test_nothing_has_no_tokens(served: Served) -> None:
    assert (await served.post("/tokenize", {"prompt": ""})).json()["tokens"] == []
    assert (await served.post("/detokenize", {"tokens": []})).json()["prompt"] == ""


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, "messages"),
        ("/tokenize", {"prompt": 5}, "prompt"),
        ("/tokenize", {"prompt": []}, "prompt"),
        ("/tokenize", {"messages": []}, "messages"),
        ("/tokenize", {"prompt": "x", "model": "other"}, "model"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": "x"}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens"),
        ("/detokenize", {"tokens": [10**30]}, "tokens"),
        ("/detokenize", {"tokens": [[1], [10**6]]}, "tokens[1]"),
        ("/detokenize", {"tokens": [1, [2]]}, "tokens"),
    ],
)
async def test_bad_input_names_its_field(served: Served, path: str, body: Any, param: str) -> None:
    response = await served.post(path, body)
    assert response.status_code in (400, 404)
    assert response.json()["error"]["param"] == param
