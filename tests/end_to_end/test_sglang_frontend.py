"""Programs written with the real `sglang` package, against an engine and through a gateway."""

import asyncio
import json
import re
import subprocess
from pathlib import Path

import pytest

from support.running_gateway import running_gateway
from support.sglang_environment import sglang_python

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).parents[1] / "support" / "sglang_programs.py"


def run_programs(url: str) -> dict:
    command = [str(sglang_python()), str(PROGRAMS), url]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=PROGRAMS.parent)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1]) | {"warnings": ended.stderr}


@pytest.fixture(scope="module")
def found(engines) -> dict:
    """What the programs found at an engine."""
    return run_programs(engines[0])


def test_the_published_programs_run_and_share_what_they_have_in_common(found):
    page = found["page_size"]
    for first, *later in (found["chats"], found["examples"]):
        assert first["answer"]["text"].strip()
        for program in later:
            answer = program["answer"]
            assert answer["text"].strip()
            assert answer["cached_tokens"] >= page
    assert found["chats"][0]["answer"]["cached_tokens"] == 0
    for program in found["examples"]:
        assert "\n" not in program["answer"]["text"]
        assert program["answer"]["finish"]["type"] in ("stop", "length")


def test_a_later_turn_finds_the_earlier_ones_answers_cached(found):
    turns = found["turns"]
    for earlier, later in (("r1", "r2"), ("r2", "r3")):
        assert turns[later]["cached_tokens"] > turns[earlier]["prompt_tokens"]
        assert turns[later]["cached_tokens"] < turns[later]["prompt_tokens"]
    assert turns["roles"] == ["system", *["user", "assistant"] * 3]


def test_forks_join_by_variable_and_by_text(found):
    gathered, joined = found["gather_variable"], found["concate_and_append"]
    assert len(gathered["thoughts"]) == 3
    branches = "".join(f" ({index}){thought}" for index, thought in enumerate(gathered["thoughts"]))
    assert branches in joined["text"] and branches not in gathered["text"]
    assert joined["text"].endswith(" So" + joined["end"])


def test_select_takes_the_choice_that_the_model_finds_likeliest(found):
    choices = [" prefixes", " nothing at all", " weights and biases"]
    scores = found["choice"]["scores"]
    assert len(set(scores)) == 3 and max(scores) < 0
    assert found["choice"]["what"] == choices[scores.index(max(scores))]
    assert found["choice"]["why"] in ("it is a tree", "it is not")


def test_answers_keep_to_expressions_types_and_schemas(found):
    texts = {name: answer["text"] for name, answer in found["constrained"].items()}
    assert re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,3}){3}", texts["address"])
    assert isinstance(int(texts["number"]), int)
    value = json.loads(texts["object"])
    assert set(value) == {"pages", "full"} and 0 <= value["pages"] <= 99 and isinstance(value["full"], bool)


def test_a_stream_says_what_the_whole_answer_says(found):
    assert found["whole"].strip()
    assert "".join(found["pieces"]) == found["whole"]
    assert len(found["pieces"]) > 1


def test_every_token_has_its_logprobs(found):
    scored = found["scored"]
    assert scored["logprobs"] == scored["tokens"]
    assert scored["top"] == [2] * scored["tokens"]


def test_a_refusal_reaches_the_program_in_words(found):
    assert found["too_long"] is None
    assert "context_length_exceeded" in found["warnings"]


async def test_through_a_gateway_they_find_the_same(engines, found):
    async with running_gateway(engines[1]) as gateway:
        through = await asyncio.to_thread(run_programs, gateway.url)
    for part in ("gather_variable", "concate_and_append", "whole", "scored", "template"):
        assert through[part] == found[part], part
    assert through["choice"]["what"] == found["choice"]["what"]
    for part in ("chats", "examples"):
        texts = [[program["answer"]["text"] for program in run[part]] for run in (through, found)]
        assert texts[0] == texts[1]
