"""SMG's cases of reasoning: apart from the answer or in it, streamed or not, wanted or not."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from support.peer_servers import default_gateway
from support.ported_cases import ported

MODEL = "tutored"
CONTENT = "e2e_test/chat_completions/test_reasoning_content.py"
THINKING = "e2e_test/chat_completions/test_enable_thinking.py"
SUM = "What is 1+3?"


@pytest.fixture(scope="module")
def thinker(start_engine, tmp_path_factory) -> Iterator[openai.OpenAI]:
    """A client of a gateway in front of a model that thinks first."""
    with default_gateway(tmp_path_factory.mktemp("gateway"), start_engine(thinking=True)) as url:
        with openai.OpenAI(base_url=f"{url}/v1", api_key="not-used", max_retries=0) as client:
            yield client


def ask(thinker: openai.OpenAI, **extra: object):
    fields = {
        "max_tokens": 100,
        "temperature": 0,
        **{k: extra.pop(k) for k in ("stop", "max_tokens") if k in extra},
    }
    return (
        thinker.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": SUM}], extra_body=extra, **fields
        )
        .choices[0]
        .message
    )


def stream(thinker: openai.OpenAI, **extra: object) -> list[tuple[str, str]]:
    """The reasoning and the content of each chunk."""
    fields = {
        "max_tokens": 100,
        "temperature": 0,
        **{k: extra.pop(k) for k in ("stop", "max_tokens") if k in extra},
    }
    chunks = thinker.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": SUM}], extra_body=extra, stream=True, **fields
    )
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    return [(getattr(delta, "reasoning_content", None) or "", delta.content or "") for delta in deltas]


def join(chunks: list[tuple[str, str]]) -> tuple[str, str]:
    return "".join(reasoning for reasoning, _ in chunks), "".join(content for _, content in chunks)


@ported(CONTENT, "TestReasoningContentAPI::test_streaming_separate_reasoning_false")
def test_reasoning_is_part_of_a_streamed_answer(thinker: openai.OpenAI):
    reasoning, content = join(stream(thinker, separate_reasoning=False))
    assert not reasoning and content


@ported(CONTENT, "TestReasoningContentAPI::test_streaming_separate_reasoning_true")
def test_reasoning_is_streamed_apart(thinker: openai.OpenAI):
    reasoning, content = join(stream(thinker, separate_reasoning=True))
    assert reasoning and content


@ported(CONTENT, "TestReasoningContentAPI::test_streaming_separate_reasoning_true_stream_reasoning_false")
def test_reasoning_comes_whole_and_first(thinker: openai.OpenAI):
    chunks = stream(thinker, separate_reasoning=True, stream_reasoning=False)
    told = [(reasoning, content) for reasoning, content in chunks if reasoning or content]
    assert told[0][0], "the reasoning is whole before the answer begins"
    assert not any(reasoning for reasoning, _ in told[1:])
    assert join(told)[1]


@pytest.mark.parametrize("stop", ["wtf", "wtfx", "0123456789"])
@ported(CONTENT, "TestReasoningContentAPI::test_streaming_unmatched_stop_word_does_not_change_output")
def test_a_stop_word_that_does_not_come_changes_nothing(thinker: openai.OpenAI, stop: str):
    plain = join(stream(thinker, separate_reasoning=True, max_tokens=8))
    stopped = join(stream(thinker, separate_reasoning=True, max_tokens=8, stop=[stop]))
    assert plain[0] and stopped == plain


@ported(CONTENT, "TestReasoningContentAPI::test_nonstreaming_separate_reasoning_false")
def test_reasoning_is_part_of_an_answer(thinker: openai.OpenAI):
    message = ask(thinker, separate_reasoning=False)
    assert not getattr(message, "reasoning_content", None) and message.content


@ported(CONTENT, "TestReasoningContentAPI::test_nonstreaming_separate_reasoning_true")
def test_reasoning_is_apart_from_an_answer(thinker: openai.OpenAI):
    message = ask(thinker, separate_reasoning=True)
    assert message.reasoning_content and message.content


def thinking(wanted: bool) -> dict[str, object]:
    return {"separate_reasoning": True, "chat_template_kwargs": {"enable_thinking": wanted}}


@ported(THINKING, "TestEnableThinking::test_chat_completion_with_reasoning")
def test_thinking_that_is_wanted_is_there(thinker: openai.OpenAI):
    assert ask(thinker, **thinking(True)).reasoning_content is not None


@ported(THINKING, "TestEnableThinking::test_chat_completion_without_reasoning")
def test_thinking_that_is_not_wanted_is_not_there(thinker: openai.OpenAI):
    assert getattr(ask(thinker, **thinking(False)), "reasoning_content", None) is None


@ported(THINKING, "TestEnableThinking::test_stream_chat_completion_with_reasoning")
def test_thinking_that_is_wanted_is_streamed(thinker: openai.OpenAI):
    reasoning, content = join(stream(thinker, **thinking(True)))
    assert reasoning and content


@ported(THINKING, "TestEnableThinking::test_stream_chat_completion_without_reasoning")
def test_thinking_that_is_not_wanted_is_not_streamed(thinker: openai.OpenAI):
    reasoning, content = join(stream(thinker, **thinking(False)))
    assert not reasoning and content
