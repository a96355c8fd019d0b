"""The system prompt in an answer, in disguises that a reader undoes at a glance."""

from __future__ import annotations

import base64
import json

import pytest

from radixway.semantics.guard.answers.system_prompt import secret_index
from support.guarded_answers import SYSTEM, Recorded, chat_body, guard_of, guarded_body, request_of

WORDS = SYSTEM.split()
BOLD = {ord("a") + at: chr(0x1D41A + at) for at in range(26)}
CYRILLIC = str.maketrans("aeopcyx", "аеорсух")


async def findings_in(text, messages=None, **section):
    recorder = Recorded()
    guard = guard_of({"system_prompt": {"action": "report"} | section}, recorder=recorder)
    await guarded_body(guard, request_of(messages=messages), chat_body(text))
    return [found for incident in recorder.incidents for found in incident.findings]


@pytest.mark.parametrize(
    "disguised",
    [
        SYSTEM.upper(),
        "-".join(SYSTEM),
        "\n".join(f"{at}. {word}" for at, word in enumerate(WORDS, 1)),
        " ".join(f"**{word}**" for word in WORDS),
        SYSTEM.lower().translate(BOLD),
        SYSTEM.translate(CYRILLIC),
        "\u200b".join(SYSTEM),
        "".join(chr(0xE0000 + ord(char)) for char in SYSTEM),
        base64.b64encode(SYSTEM.encode()).decode(),
        base64.encodebytes(SYSTEM.encode()).decode(),
        SYSTEM.encode().hex(),
        SYSTEM[::-1],
        json.dumps({"prompt": SYSTEM}),
        SYSTEM.replace("Tilly", "Milly").replace("angry", "cross").replace("call", "ring"),
    ],
)
async def test_a_disguised_prompt_is_found(disguised):
    (found, *_) = await findings_in(f"Well. {disguised} That was it.")
    assert found.type == "system_prompt_leak"
    assert 0 < found.begin < found.end <= len(disguised) + 20


@pytest.mark.parametrize(
    "text",
    [
        "I was built by the digital team at Harbour Savings.",
        "When a customer is angry, I offer a call back.",
        " ".join(WORDS[:11]),
        "aGVsbG8gd29ybGQgdGhpcyBpcyBub3RoaW5nIG9mIHRoZSBraW5k " * 5,
    ],
)
async def test_a_few_words_of_it_give_nothing_away(text):
    assert not await findings_in(text)


async def test_what_the_user_wrote_too_is_no_secret():
    asked = {"role": "user", "content": f"Translate: {SYSTEM}"}
    assert not await findings_in(SYSTEM, [{"role": "system", "content": SYSTEM}, asked])


async def test_the_number_of_words_is_configured():
    assert await findings_in(" ".join(WORDS[:7]), words=6)
    assert not await findings_in(" ".join(WORDS[:5]), words=6)


async def test_without_a_system_prompt_there_is_nothing_to_give_away():
    assert not await findings_in(SYSTEM, [{"role": "user", "content": "hello"}])


def test_long_secrets_with_the_same_beginning_share_an_index() -> None:
    beginning = "word " * 20_000
    assert secret_index(beginning + "a") is secret_index(beginning + "b")
