"""Prompts as the published worker writes them, cut to what a model can read."""

from __future__ import annotations

import pytest

from radixway.chat.worker.prompt_format import (
    PromptTurn,
    StopFilter,
    parse_turns,
    render_prompt,
    truncate_turns,
)

SYSTEM, HI, HELLO, WHY = (
    PromptTurn("system", "Be nice"),
    PromptTurn("user", "Hi"),
    PromptTurn("assistant", "Hello"),
    PromptTurn("user", "Why?"),
)


def test_version_2_of_the_prompt_is_as_published() -> None:
    expected = (
        "<|system|>Be nice</s><|prompter|>Hi</s><|assistant|>Hello</s><|prompter|>Why?</s><|assistant|>"
    )
    assert render_prompt([SYSTEM, HI, HELLO, WHY], "v2") == expected


def test_chatml_is_as_published() -> None:
    expected = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert render_prompt([HI], "chatml") == expected


def test_a_thread_becomes_turns_after_what_the_model_is_told() -> None:
    messages = [
        {"role": "prompter", "content": "Hi"},
        {"role": "assistant", "content": None},
        {"role": "prompter", "content": "Why?"},
    ]
    work = {"thread": {"messages": messages}, "parameters": {"system_prompt": "Be nice"}}
    assert parse_turns(work) == [SYSTEM, HI, PromptTurn("assistant", ""), WHY]


def test_the_oldest_turns_go_first_and_the_system_turn_never() -> None:
    old = [PromptTurn("user", "x" * 50), PromptTurn("assistant", "y" * 50)]
    assert truncate_turns([SYSTEM, *old, WHY], 40, len) == [SYSTEM, WHY]
    assert truncate_turns([SYSTEM, *old, WHY], 400, len) == [SYSTEM, *old, WHY]
    assert truncate_turns([SYSTEM, *old, WHY], 80, len) == [SYSTEM, WHY], (
        "an answer without its question is left out"
    )


def test_of_a_turn_that_is_too_long_the_end_is_kept() -> None:
    assert truncate_turns([PromptTurn("user", "abcdefgh" * 100)], 101, len) == [
        PromptTurn("user", ("abcdefgh" * 100)[-99:])
    ]


@pytest.mark.parametrize(
    ("pieces", "told", "stopped"),
    [
        (["A", " tree", "</s>", "more"], "A tree", True),
        (["A tree<", "/", "s", ">more"], "A tree", True),
        (["1 <", " 2"], "1 < 2", False),
        (["ends in </s"], "ends in </s", False),
        (["<", "<", "/s>"], "<", True),
    ],
)
def test_stop_sequences_never_show_however_they_are_cut(pieces: list[str], told: str, stopped: bool) -> None:
    stopping = StopFilter(["</s>", "<|prompter|>"])
    assert "".join(stopping.feed(piece) for piece in pieces) + stopping.flush() == told
    assert stopping.stopped is stopped
