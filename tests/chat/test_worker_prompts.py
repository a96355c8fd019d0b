"""Prompts as the published worker writes them, cut to what a model can read."""

from __future__ import annotations

import pytest

from radixway.chat.worker.prompts import StopFilter, Turn, fit, render, turns_of

SYSTEM, HI, HELLO, WHY = (
    Turn("system", "Be nice"),
    Turn("user", "Hi"),
    Turn("assistant", "Hello"),
    Turn("user", "Why?"),
)


def test_version_2_of_the_prompt_is_as_published() -> None:
    expected = (
        "<|system|>Be nice</s><|prompter|>Hi</s><|assistant|>Hello</s><|prompter|>Why?</s><|assistant|>"
    )
    assert render([SYSTEM, HI, HELLO, WHY], "v2") == expected


def test_chatml_is_as_published() -> None:
    expected = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert render([HI], "chatml") == expected


def test_a_thread_becomes_turns_after_what_the_model_is_told() -> None:
    messages = [
        {"role": "prompter", "content": "Hi"},
        {"role": "assistant", "content": None},
        {"role": "prompter", "content": "Why?"},
    ]
    work = {"thread": {"messages": messages}, "parameters": {"system_prompt": "Be nice"}}
    assert turns_of(work) == [SYSTEM, HI, Turn("assistant", ""), WHY]


def test_the_oldest_turns_go_first_and_the_system_turn_never() -> None:
    old = [Turn("user", "x" * 50), Turn("assistant", "y" * 50)]
    assert fit([SYSTEM, *old, WHY], 40, len) == [SYSTEM, WHY]
    assert fit([SYSTEM, *old, WHY], 400, len) == [SYSTEM, *old, WHY]
    assert fit([SYSTEM, *old, WHY], 80, len) == [SYSTEM, WHY], "an answer without its question is left out"


def test_of_a_turn_that_is_too_long_the_end_is_kept() -> None:
    assert fit([Turn("user", "abcdefgh" * 100)], 101, len) == [Turn("user", ("abcdefgh" * 100)[-99:])]


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
    assert "".join(stopping.push(piece) for piece in pieces) + stopping.rest() == told
    assert stopping.stopped is stopped
