"""/tokenize and /detokenize, with vLLM's fields and SGLang's."""

from typing import Any

import pytest

from support.server_served import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")

TEXT = "Hello 你好 😀<|im_end|>"


async def test_text_becomes_ids_and_text_again(served: Served) -> None:
    reply = (await served.post("/tokenize", {"model": "radixway-guide", "prompt": TEXT})).json()
    assert reply["tokens"] == served.engine.tokenizer.encode(TEXT)
    assert reply["count"] == len(reply["tokens"]) and reply["max_model_len"] == 256
    for path in ("/detokenize", "/v1/detokenize"):
        back = (await served.post(path, {"tokens": reply["tokens"]})).json()
        assert back == {"prompt": TEXT, "text": TEXT}
    skipped = await served.post("/detokenize", {"tokens": reply["tokens"], "skip_special_tokens": True})
    assert skipped.json()["text"] == TEXT.removesuffix("<|im_end|>")


async def test_several_texts_become_lists(served: Served) -> None:
    reply = (await served.post("/v1/tokenize", {"prompt": ["a", "b c"], "return_token_strs": True})).json()
    assert reply["count"] == [len(ids) for ids in reply["tokens"]]
    assert reply["token_strs"] == [["a"], ["b", "Ġc"]]  # as the vocabulary writes them
    assert (await served.post("/tokenize", {"prompt": "b c"})).json()["token_strs"] is None
    back = (await served.post("/detokenize", {"tokens": reply["tokens"]})).json()
    assert back["text"] == ["a", "b c"]


async def test_a_conversation_becomes_the_ids_that_chat_would_use(served: Served) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "temperature": 0.5}
    reply = (await served.post("/tokenize", body)).json()
    await served.post("/v1/chat/completions", body)
    assert reply["tokens"] == served.engine.submitted[0][0]


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


async def test_the_tokenizer_tells_its_configuration(served: Served) -> None:
    info = (await served.http.get("/tokenizer_info")).json()
    assert info["tokenizer_class"] and info["eos_token"] == "<|im_end|>"
    assert info["model_max_length"] >= 256
    assert info["chat_template"] == served.engine.tokenizer.chat_templates["default"].source


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
    assert (await served.post("/detokenize", {"tokens": []})).json()["text"] == ""


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
