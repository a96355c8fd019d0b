"""Texts that are too long, too many or nobody's any more cost no tokenizing."""

from typing import Any

import pytest

from support.server_served import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")

LONG = "hello " * 2_000  # the scripted engine's context is 256 tokens of at most 15 characters


@pytest.fixture
def encoded(served: Served, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that the tokenizer is given."""
    texts: list[str] = []
    encode = served.engine.tokenizer.encode

    def listing(text: str, **options: bool) -> list[int]:
        texts.append(text)
        ids: list[int] = encode(text, **options)
        return ids

    monkeypatch.setattr(served.engine.tokenizer, "encode", listing)
    return texts


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": LONG}]}, "messages"),
        ("/v1/completions", {"prompt": LONG}, "prompt"),
        ("/v1/completions", {"prompt": ["hello", LONG]}, "prompt[1]"),
        ("/generate", {"text": LONG}, "text"),
        ("/generate", {"text": ["hello", LONG]}, "text[1]"),
    ],
)
async def test_a_text_that_no_tokens_could_fit_is_refused_unread(
    served: Served, encoded: list[str], path: str, body: Any, param: str
) -> None:
    response = await served.post(path, body)
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["param"], error["code"]) == (param, "context_length_exceeded")
    assert "256 tokens" in error["message"]
    assert not encoded


async def test_too_many_prompts_are_refused_unread(served: Served, encoded: list[str]) -> None:
    response = await served.post("/v1/completions", {"prompt": ["hello"] * 1_025})
    assert response.status_code == 400
    assert not encoded
