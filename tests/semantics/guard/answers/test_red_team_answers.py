"""The answers of `tests/data/guard/red_team_answers.jsonl`, whole and one character at a time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.guarded_answers import (
    Recorded,
    chat_body,
    chat_stream,
    guard_of,
    guarded_body,
    guarded_stream,
    request_of,
    said_in,
)

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parents[3] / "data/guard/red_team_answers.jsonl").read_text().splitlines()
]
HOSTS = ["quickchart.io", "duckduckgo.com"]
SECTION = {
    "system_prompt": {"action": "report"},
    "exfiltration": {"action": "strip", "hosts": HOSTS},
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
async def test_what_gives_something_away_is_found_and_nothing_else(row):
    recorder = Recorded()
    guard = guard_of(SECTION, recorder=recorder)
    messages = [{"role": "system", "content": row["system"]}, *row["conversation"]]
    whole = json.loads(await guarded_body(guard, request_of(messages=messages), chat_body(row["answer"])))
    got, _ = await guarded_stream(guard, request_of(messages=messages), chat_stream(row["answer"]))
    assert said_in(got)[0]["content"] == whole["choices"][0]["message"]["content"]
    rules = [incident.rule for incident in recorder.incidents]
    assert rules == [f"answers.{row['finding']}"] * 2 if row["finding"] else rules == []


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row["finding"] == "system_prompt"], ids=lambda r: r["id"]
)
async def test_a_blocked_leak_ends_before_the_words_that_gave_it_away(row):
    guard = guard_of({"system_prompt": {"action": "block"}})
    messages = [{"role": "system", "content": row["system"]}, *row["conversation"]]
    got, _ = await guarded_stream(guard, request_of(messages=messages), chat_stream(row["answer"]))
    said, finish = said_in(got)
    assert finish == "content_filter"
    assert len(said.get("content", "")) < len(row["answer"]) / 2
