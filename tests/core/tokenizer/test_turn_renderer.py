"""Conversations that go on from sampled tokens show what real models' chat templates show."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixway.core.tokenizer import CannotContinueError, Tokenizer, TurnRenderer
from support.chat_families import FAMILIES, tokenizer_of

Message = dict[str, Any]

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Weather of a city",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "description": "City"}},
            },
        },
    }
]
QUESTION: Message = {"role": "user", "content": "Hello"}
ANSWER: Message = {"role": "assistant", "content": "Good day."}
NEXT: Message = {"role": "user", "content": "And now?"}
RESULT: Message = {"role": "tool", "content": "21", "tool_call_id": "abcdefgh1"}


def call(city: str = "Bern") -> Message:
    function = {"name": "weather", "arguments": {"city": city}}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "abcdefgh1", "type": "function", "function": function}],
    }


def ids_of(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False)


def text_of(tokenizer: Tokenizer, ids: list[int]) -> str:
    return tokenizer.decode(ids, skip_special_tokens=False)


def rendered(tokenizer: Tokenizer, messages: list[Message], **options: Any) -> list[int]:
    return TurnRenderer(tokenizer).opening(messages, **options)


def after(name: str, reply: str, *new: Message, history: list[Message] | None = None, **options: Any) -> str:
    """What the family's renderer appends to this reply."""
    tokenizer = tokenizer_of(name)
    appended = TurnRenderer(tokenizer).continuation(
        ids_of(tokenizer, reply), new, history=history or [QUESTION, ANSWER], **options
    )
    return text_of(tokenizer, appended.ids)


# What each family's boundary looks like.


@pytest.mark.parametrize(
    ("name", "reply", "appended"),
    [
        ("qwen3", "Hi<|im_end|>", "\n<|im_start|>user\nAnd now?<|im_end|>\n<|im_start|>assistant\n"),
        ("qwen3", "Hi<|im_end|>\n", "<|im_start|>user\nAnd now?<|im_end|>\n<|im_start|>assistant\n"),
        ("qwen3", "Hi", "<|im_end|>\n<|im_start|>user\nAnd now?<|im_end|>\n<|im_start|>assistant\n"),
        ("qwen3", "", "<|im_end|>\n<|im_start|>user\nAnd now?<|im_end|>\n<|im_start|>assistant\n"),
        ("glm4moe", "\n<think></think>\nHi<|user|>", "\nAnd now?<|assistant|>"),
        ("glm4moe", "\n<think>Hm", "<|user|>\nAnd now?<|assistant|>"),
        ("phi3", "Hi<|end|>", "\n<|user|>\nAnd now?<|end|>\n<|assistant|>\n"),
        ("mistral_v3_tekken", "Hi</s>", "[INST]And now?[/INST]"),
        ("deepseekv3", "Hm</think>Hi<｜end▁of▁sentence｜>", "<｜User｜>And now?<｜Assistant｜><think>\n"),
    ],
)
def test_the_reply_is_ended_where_the_sampler_left_it(name: str, reply: str, appended: str) -> None:
    assert after(name, reply, NEXT) == appended


@pytest.mark.parametrize(
    ("reply", "boundary"),
    [("<think>\nWell", "<|im_end|>\n"), ("Well.<|im_end|>", "\n"), ("Well.<|im_end|>\n", "")],
)
def test_which_ids_only_end_the_answer_is_said(reply: str, boundary: str) -> None:
    tokenizer = tokenizer_of("qwen3")
    appended = TurnRenderer(tokenizer).continuation(
        ids_of(tokenizer, reply), [NEXT], history=[QUESTION, ANSWER]
    )
    assert text_of(tokenizer, appended.ids[: appended.boundary]) == boundary
    assert text_of(tokenizer, appended.ids[appended.boundary :]).startswith("<|im_start|>user")


def test_a_stop_token_that_is_the_next_role_belongs_to_the_message_not_to_the_boundary() -> None:
    tokenizer = tokenizer_of("glm4moe")
    for reply, shown in [
        ("Hi", "<|user|>\nAnd now?<|assistant|>"),
        ("Hi<|user|>", "\nAnd now?<|assistant|>"),
    ]:
        appended = TurnRenderer(tokenizer).continuation(
            ids_of(tokenizer, reply), [NEXT], history=[QUESTION, ANSWER]
        )
        assert (text_of(tokenizer, appended.ids), appended.boundary) == (shown, 0)


def test_thinking_that_the_generation_prompt_began_stays_and_is_named() -> None:
    tokenizer = tokenizer_of("qwen3_5_think")
    appended = TurnRenderer(tokenizer).continuation(
        ids_of(tokenizer, "Hm.\n</think>\n\nHi<|im_end|>"), [NEXT], history=[QUESTION, ANSWER]
    )
    assert appended.deviations == ("'<think>\\n' before the answer",)
    assert text_of(tokenizer, appended.ids).endswith("<|im_start|>assistant\n<think>\n")


def test_thinking_that_is_switched_off_is_switched_off_for_the_next_answer_too() -> None:
    appended = after("qwen3", "Hi<|im_end|>", NEXT, arguments={"enable_thinking": False})
    assert appended.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")


def test_empty_thinking_of_earlier_steps_that_the_template_drops_is_no_hindrance() -> None:
    tokenizer = tokenizer_of("qwen3_5_think")
    appended = TurnRenderer(tokenizer).continuation(
        ids_of(tokenizer, "Hi<|im_end|>"), [RESULT, NEXT], history=[QUESTION, call()], tools=TOOLS
    )
    shown = "\n<|im_start|>user\n<tool_response>\n21\n</tool_response><|im_end|>\n"
    assert text_of(tokenizer, appended.ids).startswith(shown)
    assert appended.deviations == ("'<think>\\n' before the answer",)


def test_harmony_keeps_the_sampled_return_token_and_says_that_the_template_shows_another() -> None:
    tokenizer = tokenizer_of("gptoss")
    reply = ids_of(tokenizer, "<|channel|>final<|message|>Hi<|return|>")
    appended = TurnRenderer(tokenizer).continuation(reply, [NEXT], history=[QUESTION, ANSWER])
    assert text_of(tokenizer, appended.ids) == "<|start|>user<|message|>And now?<|end|><|start|>assistant"
    assert appended.deviations == ("'<|return|>' where later turns show '<|end|>'",)


def test_a_tools_result_is_shown_under_the_name_of_the_tool_that_was_called() -> None:
    reply = '<|channel|>commentary to=functions.weather<|message|>{"city": "Bern"}<|call|>'
    appended = after("gptoss", reply, RESULT, history=[QUESTION, call()], tools=TOOLS)
    assert appended.startswith("<|start|>functions.weather to=assistant")


def test_a_call_is_not_written_again() -> None:
    reply = '<tool_call>\n{"arguments":{"city":"Bern"},  "name":"weather"}\n</tool_call><|im_end|>'
    appended = after("qwen3", reply, RESULT, RESULT, history=[QUESTION, call()], tools=TOOLS)
    assert appended == (
        "\n<|im_start|>user\n<tool_response>\n21\n</tool_response>\n<tool_response>\n21\n</tool_response>"
        "<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize("name", ["qwen2_5", "glm4moe", "gptoss", "mistral_v3_tekken", "bundled"])
def test_a_call_that_was_cut_off_is_ended_by_its_stop_token(name: str) -> None:
    stop, result = FAMILIES[name].call_stop, {**RESULT, "content": "42 degrees"}
    cut = after(name, "we", result, history=[QUESTION, call()], tools=TOOLS)
    ended = after(name, "we" + stop, result, history=[QUESTION, call()], tools=TOOLS)
    assert cut == stop + ended
    assert ended.count("42 degrees") == 1


TWO_TOKENS_END = """\
{%- for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}
{%- for c in m.tool_calls or [] %}<|channel|>{{ c.function.arguments | tojson }}<|call|>{% endfor -%}
{%- if m.role == 'assistant' %}<|end|><|return|>{% endif %}{% endfor %}
{%- if add_generation_prompt %}<|start|>assistant<|message|>{% endif %}"""
SHOWN = "<|start|>user<|message|>And now?<|start|>assistant<|message|>"


@pytest.mark.parametrize(
    ("reply", "answer", "appended", "deviations"),
    [
        ("Hi<|end|><|return|>", ANSWER, SHOWN, ()),
        ("Hi<|end|>", ANSWER, "<|return|>" + SHOWN, ()),
        ("Hi<|return|>", ANSWER, SHOWN, ("'<|return|>' alone after the answer",)),
        ("<|channel|>{}<|call|><|end|><|return|>", call(), SHOWN, ()),
        ("<|channel|>{}", call(), "<|return|>" + SHOWN, ()),
    ],
)
def test_an_answer_that_several_tokens_end(
    reply: str, answer: Message, appended: str, deviations: tuple[str, ...]
) -> None:
    backend = tokenizer_of("gptoss").backend
    stops = frozenset([backend.token_to_id("<|return|>")])
    tokenizer = Tokenizer(backend, chat_templates={"default": TWO_TOKENS_END}, eos_token_ids=stops)
    given = TurnRenderer(tokenizer).continuation(ids_of(tokenizer, reply), [NEXT], history=[QUESTION, answer])
    assert (text_of(tokenizer, given.ids), given.deviations) == (appended, deviations)


# What cannot go on is refused.


def test_a_stop_token_that_the_template_does_not_show_there_is_refused() -> None:
    with pytest.raises(CannotContinueError, match=r"endoftext"):
        after("qwen3", "Hi<|endoftext|>", NEXT)
    with pytest.raises(CannotContinueError, match=r"observation"):
        after("glm4moe", "Hi<|observation|>", NEXT)


def test_a_template_that_moves_tools_or_system_to_the_last_question_is_refused_for_a_further_one() -> None:
    with pytest.raises(CannotContinueError, match="otherwise once others follow"):
        after("mistral_v3_tekken", "Hi</s>", NEXT, tools=TOOLS)
    with pytest.raises(CannotContinueError, match="otherwise once others follow"):
        system: Message = {"role": "system", "content": "Be brief."}
        after("mistral_v3_tekken", "Hi</s>", NEXT, history=[system, QUESTION, ANSWER])
    assert after("mistral_v13_tekken", "Hi</s>", NEXT, tools=TOOLS) == "[INST]And now?[/INST]"


def test_a_template_that_opens_tool_results_only_once_is_refused() -> None:
    with pytest.raises(CannotContinueError, match="otherwise"):
        after("deepseekv3", "Hi<｜end▁of▁sentence｜>", RESULT, history=[QUESTION, call()])


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:", "no special token"),
        (
            "{% for m in messages %}<|im_start|>{{ messages | length }}{{ m.content }}<|im_end|>{% endfor %}",
            "earlier",
        ),
        ("<|im_start|>{{ messages[-1].content }}<|im_end|>", "earlier messages otherwise"),
        (
            "{% for m in messages %}<|im_start|>{{ loop.index }}. {{ m.content }}<|im_end|>{% endfor %}",
            "new messages otherwise later",
        ),
        (
            "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>Answer in verse: {% endif %}",
            "'Answer in verse: '",
        ),
    ],
)
def test_a_template_whose_turns_cannot_be_told_apart_is_refused(source: str, why: str) -> None:
    base = tokenizer_of("qwen3")
    tokenizer = Tokenizer(base.backend, chat_templates={"default": source}, eos_token_ids=base.eos_token_ids)
    with pytest.raises(CannotContinueError, match=why):
        TurnRenderer(tokenizer).continuation(ids_of(tokenizer, "Hi"), [NEXT], history=[QUESTION, ANSWER])


@pytest.mark.parametrize(
    ("history", "new"),
    [
        ([], [NEXT]),
        ([QUESTION], [NEXT]),
        ([QUESTION, ANSWER], []),
        ([QUESTION, ANSWER], [{"role": "wizard", "content": "Hi"}]),
        ([QUESTION, ANSWER], [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]),
        ([QUESTION, ANSWER], [{"content": "no role"}]),
        ([QUESTION, ANSWER], [{"role": "user", "content": "half a pair \ud83d"}]),
        ([{"content": "no role"}, ANSWER], [{"role": "user", "content": None}]),
    ],
)
def test_messages_that_are_no_continuation_are_refused(history: list[Message], new: list[Message]) -> None:
    tokenizer = tokenizer_of("qwen3")
    with pytest.raises(CannotContinueError):
        TurnRenderer(tokenizer).continuation(ids_of(tokenizer, "Hi<|im_end|>"), new, history=history)


def test_one_clients_refused_message_does_not_spoil_the_next_ones() -> None:
    renderer = TurnRenderer(tokenizer := tokenizer_of("mistral_v3_tekken"))
    reply, history = ids_of(tokenizer, "Hi</s>"), [QUESTION, call()]
    with pytest.raises(CannotContinueError):
        renderer.continuation(
            reply, [{**RESULT, "tool_call_id": "too long for it"}], history=history, tools=TOOLS
        )
    assert renderer.continuation(reply, [RESULT], history=history, tools=TOOLS).ids


def test_a_message_that_looks_like_the_mark_of_a_probe_changes_nothing() -> None:
    messages: list[Message] = [
        {"role": "user", "content": f"answer{number}x earlier new0"} for number in range(3)
    ]
    for message in messages:
        assert after("qwen3", "Hi<|im_end|>", message).count(message["content"]) == 1


# The same tokens as the whole conversation's, for templates that only append.

APPENDING = ["qwen2_5", "qwen3", "llama3", "glm4moe", "phi3", "mistral_v13_tekken", "bundled"]
WITHOUT_TOOLS = {"phi3"}

words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<[\0"), max_size=12)
spaces = st.text(" \n\t\r　", max_size=3)
contents = st.builds(lambda before, text, end: f"{before}m{text}{end}", spaces, words, spaces)
answers = st.builds(lambda text: f"Y{text}.", st.text("abc dé你\n0,😀", max_size=10))
endings = st.sampled_from(["stop", "length", "newline"])
turns = st.lists(st.tuples(st.booleans(), contents, answers, endings), min_size=1, max_size=5)


def sampled(name: str, answer: Message, messages: list[Message], options: dict[str, Any]) -> str:
    """What a model samples that answers just as its template writes the answer, without its stop token."""
    family, tokenizer = FAMILIES[name], tokenizer_of(name)
    if not answer.get("tool_calls"):
        return family.opened + answer["content"]
    whole = text_of(tokenizer, rendered(tokenizer, [*messages, answer, RESULT], **options))
    start = len(text_of(tokenizer, rendered(tokenizer, messages, **options)))
    return whole[start : whole.index(family.call_stop, start)]


@pytest.mark.parametrize("name", APPENDING)
@settings(max_examples=25, deadline=None)
@given(system=st.none() | contents, turns=turns)
def test_prompts_and_replies_in_a_row_are_the_tokens_of_the_whole_conversation(
    name: str, system: str | None, turns: list[tuple[bool, str, str, str]]
) -> None:
    family, tokenizer = FAMILIES[name], tokenizer_of(name)
    renderer = TurnRenderer(tokenizer)
    options: dict[str, Any] = {} if name in WITHOUT_TOOLS else {"tools": TOOLS}
    messages: list[Message] = [] if system is None else [{"role": "system", "content": system}]
    messages.append({"role": "user", "content": "m?"})
    ids = renderer.opening(messages, **options)
    for calls, content, answer, ended in turns:
        calls = calls and name not in WITHOUT_TOOLS
        said = call(answer) if calls else {"role": "assistant", "content": answer}
        text = sampled(name, said, messages, options)
        if ended != "length":
            text += family.call_stop if calls else family.stop
        if ended == "newline" and "qwen" in name:
            text += "\n"
        new = {**RESULT, "content": content} if calls else {"role": "user", "content": content}
        reply = ids_of(tokenizer, text)
        appended = renderer.continuation(reply, [new], history=[*messages, said], **options)
        assert not appended.deviations
        ids += reply + appended.ids
        messages += [said, new]
        whole = renderer.opening(messages, **options)
        assert text_of(tokenizer, ids) == text_of(tokenizer, whole)
        assert appended.ids == whole[-len(appended.ids) :]
    # The bundled model's calls begin with a newline after the prompt's: two tokens sampled, one rendered.
    assert name == "bundled" or ids == whole


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "deepseekv3"])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_whatever_was_sampled_each_new_message_is_shown_once_and_a_prompt_follows(
    name: str, data: st.DataObject
) -> None:
    family, tokenizer = FAMILIES[name], tokenizer_of(name)
    options: dict[str, Any] = {} if name in {*WITHOUT_TOOLS, "mistral_v3_tekken"} else {"tools": TOOLS}
    ordinary = [i for i in range(tokenizer.size) if i not in tokenizer.special_ids]
    reply = data.draw(st.lists(st.sampled_from(ordinary), max_size=8))
    calls = bool(options) and data.draw(st.booleans())
    stop = family.call_stop if calls else family.stop
    reply = reply + data.draw(st.sampled_from([[], ids_of(tokenizer, stop)]))
    question: Message = {"role": "user", "content": data.draw(contents) + "Zq0"}
    new = [{**RESULT, "content": data.draw(contents) + "Zq1"}] if calls else [question]
    thought = {"role": "assistant", "content": data.draw(words), "reasoning_content": data.draw(words)}
    system = [] if name == "mistral_v3_tekken" else [{"role": "system", "content": "S"}]
    history = [*system, QUESTION, call() if calls else thought]
    appended = TurnRenderer(tokenizer).continuation(reply, new, history=history, **options)
    text = text_of(tokenizer, appended.ids)
    assert [text.count(f"Zq{number}") for number in range(2)] == ([0, 1] if calls else [1, 0])
    whole = text_of(tokenizer, rendered(tokenizer, [QUESTION, call() if calls else ANSWER, *new], **options))
    assert text.rpartition("Zq")[2] == whole.rpartition("Zq")[2]


def test_what_was_learnt_of_a_template_does_not_pile_up() -> None:
    renderer = TurnRenderer(tokenizer := tokenizer_of("qwen3"))
    reply = ids_of(tokenizer, "Hi<|im_end|>")
    for number in range(600):
        renderer.continuation(reply, [NEXT], history=[QUESTION, ANSWER], arguments={"number": number})
    assert len(renderer._endings) <= 512
