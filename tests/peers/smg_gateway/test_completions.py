"""SMG's cases of completions: texts that go on, whole, streamed and several at once."""

from __future__ import annotations

from collections import defaultdict

import openai
import pytest

from support.ported_cases import ported

MODEL = "tutored"
SOURCE = "e2e_test/completions/test_basic.py"
FRANCE = "The capital of France is"
PROMPTS = [FRANCE, "Hello, my name is"]
ENDS = ("stop", "length")


def case(name: str) -> pytest.MarkDecorator:
    return ported(SOURCE, name)


def check_usage(usage) -> None:
    assert usage.prompt_tokens > 0 and usage.completion_tokens > 0
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


@case("TestCompletionBasic::test_non_streaming_basic")
def test_a_completion_is_whole(api: openai.OpenAI):
    answer = api.completions.create(model=MODEL, prompt=FRANCE, max_tokens=20, temperature=0)
    assert answer.id and answer.model and answer.created
    assert answer.object == "text_completion"
    (choice,) = answer.choices
    assert choice.index == 0 and choice.text and choice.finish_reason in ENDS
    check_usage(answer.usage)


@case("TestCompletionBasic::test_non_streaming_max_tokens")
def test_a_completion_ends_at_its_limit(api: openai.OpenAI):
    answer = api.completions.create(model=MODEL, prompt=FRANCE, max_tokens=5, temperature=0)
    (choice,) = answer.choices
    assert choice.finish_reason == "length"
    assert answer.usage.completion_tokens <= 5


@case("TestCompletionBasic::test_non_streaming_stop_sequence")
def test_a_stop_sequence_ends_a_completion(api: openai.OpenAI):
    answer = api.completions.create(model=MODEL, prompt=FRANCE, max_tokens=200, temperature=0, stop=[","])
    assert answer.choices[0].finish_reason == "stop"
    assert "," not in answer.choices[0].text


@case("TestCompletionBasic::test_non_streaming_echo")
def test_a_prompt_is_echoed(api: openai.OpenAI):
    answer = api.completions.create(model=MODEL, prompt=FRANCE, max_tokens=20, temperature=0, echo=True)
    assert answer.choices[0].text.startswith(FRANCE)


@case("TestCompletionBasic::test_non_streaming_suffix")
def test_a_suffix_is_appended(api: openai.OpenAI):
    answer = api.completions.create(
        model=MODEL, prompt=FRANCE, max_tokens=20, temperature=0, suffix=" -- END"
    )
    assert answer.choices[0].text.endswith(" -- END")


@pytest.mark.parametrize("n", [1, 2])
@case("TestCompletionBasic::test_non_streaming_parallel_sampling")
def test_a_prompt_has_several_completions(api: openai.OpenAI, n: int):
    answer = api.completions.create(
        model=MODEL, prompt=FRANCE, max_tokens=30, temperature=0.7 if n > 1 else 0, n=n
    )
    assert [choice.index for choice in answer.choices] == list(range(n))
    assert all(choice.text for choice in answer.choices)


@case("TestCompletionBasic::test_non_streaming_usage")
def test_a_completion_tells_its_usage(api: openai.OpenAI):
    check_usage(api.completions.create(model=MODEL, prompt="Hello", max_tokens=10, temperature=0).usage)


@case("TestCompletionBasic::test_rid_becomes_response_id")
def test_a_rid_becomes_the_id(api: openai.OpenAI):
    answer = api.completions.create(
        model=MODEL, prompt="Hello", max_tokens=5, temperature=0, extra_body={"rid": "cmpl-correlation-1"}
    )
    assert answer.id == "cmpl-correlation-1"


@case("TestCompletionBasic::test_non_streaming_echo_max_tokens_zero")
def test_no_tokens_and_an_echo_are_the_prompt(api: openai.OpenAI):
    answer = api.completions.create(model=MODEL, prompt=FRANCE, max_tokens=0, temperature=0, echo=True)
    assert answer.choices[0].text == FRANCE
    assert answer.choices[0].finish_reason in ENDS
    assert answer.usage.completion_tokens == 0


def read_stream(stream) -> tuple[dict[int, str], dict[int, list[str]], list]:
    """Texts and ends by index, and the usages."""
    texts: dict[int, str] = defaultdict(str)
    ends: dict[int, list[str]] = defaultdict(list)
    usages = []
    for chunk in stream:
        assert chunk.object == "text_completion"
        if chunk.usage is not None:
            usages.append(chunk.usage)
        for choice in chunk.choices:
            texts[choice.index] += choice.text or ""
            if choice.finish_reason:
                ends[choice.index].append(choice.finish_reason)
    return dict(texts), dict(ends), usages


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("basic", marks=case("TestCompletionStreaming::test_streaming_basic")),
        pytest.param("full", marks=case("TestCompletionStreaming::test_streaming_collects_full_text")),
    ],
)
def test_a_streamed_completion_has_a_text_and_one_end(api: openai.OpenAI, name: str):
    texts, ends, _ = read_stream(
        api.completions.create(model=MODEL, prompt=FRANCE, max_tokens=20, temperature=0, stream=True)
    )
    assert texts[0]
    assert ends[0] in (["stop"], ["length"])


@case("TestCompletionStreaming::test_streaming_stop_sequence")
def test_a_stop_sequence_ends_a_streamed_completion(api: openai.OpenAI):
    texts, ends, _ = read_stream(
        api.completions.create(
            model=MODEL, prompt=FRANCE, max_tokens=200, temperature=0, stop=[","], stream=True
        )
    )
    assert ends == {0: ["stop"]}
    assert "," not in texts[0]


@case("TestCompletionStreaming::test_streaming_echo_max_tokens_zero")
def test_no_tokens_and_an_echo_are_the_prompt_in_a_stream(api: openai.OpenAI):
    texts, ends, _ = read_stream(
        api.completions.create(
            model=MODEL, prompt=FRANCE, max_tokens=0, temperature=0, echo=True, stream=True
        )
    )
    assert texts == {0: FRANCE}
    assert ends[0] in (["stop"], ["length"])


@case("TestCompletionBatch::test_batch_non_streaming")
def test_each_of_several_prompts_has_a_choice(api: openai.OpenAI):
    answer = api.completions.create(model=MODEL, prompt=PROMPTS, max_tokens=20, temperature=0)
    assert sorted(choice.index for choice in answer.choices) == [0, 1]
    assert all(choice.text and choice.finish_reason in ENDS for choice in answer.choices)
    check_usage(answer.usage)


@case("TestCompletionBatch::test_batch_non_streaming_with_n")
def test_several_choices_of_several_prompts_are_in_their_order(api: openai.OpenAI):
    answer = api.completions.create(
        model=MODEL, prompt=PROMPTS, max_tokens=20, temperature=0.7, n=2, echo=True
    )
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert all(choice.text.startswith(PROMPTS[choice.index // 2]) for choice in answer.choices)


@case("TestCompletionBatch::test_batch_echo_maps_prompts_to_choices")
def test_each_prompt_is_echoed_in_its_choice(api: openai.OpenAI):
    answer = api.completions.create(model=MODEL, prompt=PROMPTS, max_tokens=10, temperature=0, echo=True)
    texts = {choice.index: choice.text for choice in answer.choices}
    assert len(texts) == 2
    assert all(texts[index].startswith(prompt) for index, prompt in enumerate(PROMPTS))


@case("TestCompletionBatch::test_batch_rid_is_shared_response_id")
def test_several_prompts_share_a_rid(api: openai.OpenAI):
    answer = api.completions.create(
        model=MODEL, prompt=PROMPTS, max_tokens=5, temperature=0, extra_body={"rid": "batch-correlation-1"}
    )
    assert answer.id == "batch-correlation-1"
    assert sorted(choice.index for choice in answer.choices) == [0, 1]


@case("TestCompletionBatch::test_batch_streaming")
def test_several_prompts_are_streamed_beside_each_other(api: openai.OpenAI):
    texts, ends, usages = read_stream(
        api.completions.create(
            model=MODEL,
            prompt=PROMPTS,
            max_tokens=20,
            temperature=0.7,
            n=2,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    assert sorted(texts) == [0, 1, 2, 3] == sorted(ends)
    assert all(texts.values())
    assert all(found in (["stop"], ["length"]) for found in ends.values())
    (usage,) = usages
    check_usage(usage)
