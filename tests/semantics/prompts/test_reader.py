"""What of a prompt is the ask, and what applications put around it."""

import html
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.semantics.prompts import read_prompt
from radixway.semantics.prompts.lines import MAX_LINES

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))

from evaluation.wrapped import language_of, passages, shapes

QUESTIONS = [
    "What is the derivative of x^2 sin(x)?",
    "Baking powder vs baking soda: what acids and bases are involved when each one releases CO2?",
    "my PCR gives me a smear instead of a clean band at 600 bp. what should I change first",
    "如何证明根号二是无理数？",
    "近视800度适合做全飞秒还是ICL？",
]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("shape", shapes(), ids=lambda shape: shape.name)
def test_the_ask_is_found_in_every_published_shape(shape, question):
    if language_of(question) not in shape.languages:
        return
    for context in passages(language_of(question))[:6]:
        body = shape.wrap_question(question, context)
        assert read_prompt(body["messages"][-1]["content"]).ask == question


PLAIN = [
    "Prove that there are infinitely many primes.",
    "You are planning to carpet a room 14'6\" by 11'3\". The price is $11.95 per sq. yd. What is the cost?",
    "If I have a class:\n\nclass Foo {\n  a: string;\n}\n\nHow do I extract the type of the member?",
    "Regex to delete all <g> elements containing a string `transform` please.",
    "Write a story that contains the given words.\nuniverse, whale, killer.",
    "Write a letter based on the given facts.\nName: Ebony Moore\nEmail: e@example.com\nPhone: 123",
    "Given an array, find the longest run.\nInput: nums = [0]\nOutput: 1\nInput: nums = [0, 1]\nOutput: 2",
    "I am migrating from Mojave to Sonoma. Note that I do not want to open each tab by hand.",
    "clean this up?\n\n```python\ndef f():\n    '''Return one.'''\n    return 1\n```",
    "hey how's your day going",
    "论述甲午战争对东亚国际秩序的影响，不少于800字",
]


@pytest.mark.parametrize("prompt", PLAIN)
def test_a_plain_prompt_is_read_whole(prompt):
    reading = read_prompt(prompt)
    assert reading.ask == prompt
    assert [part.kind for part in reading.parts] == ["ask"]


def test_an_ask_about_a_text_is_read_with_that_text():
    letter = "The station moved to Hay Street in 1985. Its staff then were four people."
    reading = read_prompt(f"Summarize the document.\n\n<document>\n{letter}\n</document>")
    assert reading.ask.startswith("Summarize the document.")
    assert letter in reading.ask


def test_the_last_of_several_questions_under_labels_is_asked():
    examples = "Question: Who wrote Hamlet?\nAnswer: Shakespeare\n\nQuestion: What is osmosis?\nAnswer:"
    assert read_prompt(examples).ask == "What is osmosis?"


def test_a_pasted_conversation_is_data_of_the_ask_before_it():
    prompt = (
        "Which of the two is angrier in this chat?\n\n"
        "User: My parcel is lost.\nAssistant: I am sorry.\nUser: Do something!\nAssistant: I will."
    )
    reading = read_prompt(prompt)
    assert reading.ask.startswith("Which of the two is angrier in this chat?")
    assert {part.kind for part in reading.parts} == {"ask", "data"}


def test_reminders_alone_ask_nothing():
    reading = read_prompt("<system-reminder>\nThe file was changed. Do not mention this.\n</system-reminder>")
    assert reading.ask == ""
    assert [part.kind for part in reading.parts] == ["frame"]


def test_a_chat_written_out_with_special_tokens_asks_its_last_turn():
    prompt = (
        "<|im_start|>system\nYou are terse.<|im_end|>\n<|im_start|>user\nWhat is a monad?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert read_prompt(prompt).ask == "What is a monad?"


def test_the_explanation_has_no_words_of_the_prompt():
    reading = read_prompt("<context>\nZanzibar\n</context>\n\nWhat is osmosis?")
    assert reading.explain() == {
        "characters": len("What is osmosis?"),
        "left_out": [{"kind": "data", "why": "tag context", "characters": 29}],
    }


PIECES = st.sampled_from(
    [
        *("Question: ", "Context:\n", "Answer:", "\n\n", "\n", "<task>", "</task>", "<a>", "</context>"),
        *("<context>", '{"question": "', '"}', "```", '"""', "---", "# Task\n", "> quoted\n", "From: a\n"),
        *("To: b\n", "-- \n", "You are a helpful assistant. ", "What is this?", "word ", "。", "\0"),
        *("请回答问题：", "<|im_start|>user\n"),
    ]
)


@given(st.lists(PIECES | st.text(max_size=20), max_size=40).map("".join))
def test_parts_are_pieces_of_the_text_in_their_order(text):
    reading = read_prompt(text)
    at = 0
    for part in reading.parts:
        assert at <= part.start <= part.end <= len(text)
        at = part.end
    if text.strip() and not reading.ask:
        assert all(part.why.startswith("tag ") for part in reading.parts)


HOSTILE = {
    "open tags": "<x>" * 60_000,
    "nested asks": "<question>" * 4_000 + "x" + "</question>" * 4_000,
    "empty asks inside": "<question>x" + "<question>" * 4_000 + "</question>" * 4_001,
    "crossing tags": "<question><x>" * 4_000 + "</question></x>" * 4_000,
    "quotation": "> x\n" * 50_000,
    "an e-mail's quotation": "From: a\nTo: b\n" + "> x\n" * 50_000,
    "questions with answers": "Tell me about it. What is it?\n" + "Question: x\nAnswer: y\n" * 8_000,
    "styles": "Format: x\n" * 20_000 + "What is it?",
    "spaces in headings": ("# " + " " * 90 + "x" * 100 + "\n") * 1_000,
    "spaces in a comment": "```\n#" + " " * 100_000 + "x\nb\n```",
    "instructions around JSON": "Begin!\n" * 8_000 + '{"question":' + "\n" * 90_000 + '"what is it?"}',
    "nested JSON": '{"a":' * 20_000 + '"What is it?"' + "}" * 20_000,
    "lone surrogates": "\ud800\n" * 60_000,
    "NUL": "\0\n" * 60_000,
}
"""Each took seconds to minutes, or failed, while a step compared lines with lines."""


@pytest.mark.parametrize("prompt", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_prompt_is_read_in_parts_that_cover_it(prompt):
    parts = read_prompt(prompt).parts
    assert parts[0].start == 0
    assert parts[-1].end >= len(prompt) - 1  # a line end at the end belongs to no part
    assert len(parts) <= 2 * MAX_LINES
    assert all(part.end <= after.start for part, after in pairwise(parts))


def test_of_very_many_lines_those_at_the_ends_are_read():
    reading = read_prompt("What is a prime number?\n\n" + "7\n" * 20_000 + "\nIs 51 one?")
    assert reading.ask.startswith("What is a prime number?")
    assert reading.ask.endswith("Is 51 one?")
    assert [part.why for part in reading.parts if part.kind == "data"] == ["too long"]


@pytest.mark.parametrize(
    "before",
    [
        "order,customer,country\n1,Baker,GB\n2,Okafor,NG\n3,Tanaka,JP\n\n",
        "Input: Who wrote Faust?\nOutput: Goethe.\n###\nInput: ",
        "请回答用户的问题。\n\n问题是：",
        "The customer's question is: ",
    ],
    ids=["table", "rules between examples", "label with a verb", "label with a genitive"],
)
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_ask_is_found_below_other_frames(before, question):
    after = "\nOutput:" if "Output" in before else "\n\nAnswer:" if "is: " in before else ""
    assert read_prompt(before + question + after).ask == question


@pytest.mark.parametrize(
    "prompt",
    [
        "<html><body><p>Hi team,</p><p>What is osmosis?</p><p>Many thanks,<br>Julia</p></body></html>",
        "type: qa\nlocale: en\nquestion: >\n  What is osmosis?\noptions:\n  words: 100\n",
        '<request locale="en" question="What is osmosis?"/>',
        "2026-03-14 10:21:07 ERROR worker 3 timed out\n2026-03-14 10:21:08 INFO retry\n\nWhat is osmosis?",
        "[09:12] maria: morning all\n[09:13] tom: hi\n[09:16] tom: What is osmosis?",
        "Caller: hi there\nAgent: hello, how can I help?\nCaller: What is osmosis?",
        "### What happened?\n\nWhat is osmosis?\n\n### Version\n\n1.2.3\n\n### Steps to reproduce\n\nNone",
        'The customer Dana (plan: Pro) writes:\n\n"What is osmosis?"\n\nReply in a friendly tone.',
        "Beantworte die folgende Frage höflich und auf Englisch.\n\nWhat is osmosis?",
        "次の質問に答えてください。\n\nWhat is osmosis?",
        "What is osmosis?\n\n# Answer block rules:\n\n1. The full path alone on a line.\n2. The fence.",
    ],
)
def test_the_ask_is_found_in_other_forms(prompt):
    assert read_prompt(prompt).ask == "What is osmosis?"


def test_sections_of_a_task_are_read_together():
    prompt = "# Task\nWrite a parser of dates.\n\n## Details\nIt takes ISO 8601 only.\n\n## Version\n1.2"
    ask = read_prompt(prompt).ask
    assert "Write a parser" in ask and "ISO 8601" in ask and "1.2" not in ask


def test_texts_in_one_another_are_read_to_a_bounded_depth():
    text = "<p>What is osmosis?</p>"
    for _ in range(40):
        text = "<p>" + html.escape(text) + "</p>"
    assert read_prompt(text).ask
