"""Every text of the red team's file, judged as its speaker said it."""

import json
from pathlib import Path

import pytest

from radixway.semantics.encoders import EncoderService
from radixway.semantics.guard.jailbreak import build_attack_judge
from radixway.semantics.guard.passages import TextPassage

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parents[3] / "data/guard/red_team.jsonl").read_text("utf-8").splitlines()
]
WRONG = {"red-148", "red-164", "red-182", "red-193", "red-196", "red-198"}
"""Those that are taken for what they are not: harmless neighbours all, no attack is missed."""


def passages_of(row):
    if "text" in row:
        return [TextPassage(row["text"], row["speaker"], ("messages", 0, "content"))]
    turns = enumerate(row["turns"])
    return [TextPassage(turn["content"], turn["role"], ("messages", at, "content")) for at, turn in turns]


@pytest.fixture(scope="module")
def judge_all(one_encoder):
    async def judge():
        service = EncoderService(lambda: one_encoder)
        judge = build_attack_judge(service)
        try:
            return {
                row["id"]: max(attack.risk for attack in await judge.judge_passages(passages_of(row)))
                for row in ROWS
            }
        finally:
            await service.aclose()

    return judge


async def test_every_row_is_judged_as_it_should_be(judge_all):
    risks = await judge_all()
    wrong = {row["id"] for row in ROWS if (risks[row["id"]] >= 0.7) != row["attack"]}
    assert wrong == WRONG
