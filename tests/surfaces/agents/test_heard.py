"""Answers of workers that answer garbage."""

from __future__ import annotations

import json
from typing import Any

import pytest

from radixway.parsers import Reading
from radixway.surfaces.agents.errors import Refused
from radixway.surfaces.agents.heard import Heard
from radixway.surfaces.agents.speaking import Speaking
from radixway.surfaces.wires import Ask
from trajectories.sessions.conversations import tokenizer


@pytest.mark.parametrize("row", [[], [-0.5], [-0.5, "five"], [-0.5, None], ["low", 5], [-0.5, 1.5]])
def test_scores_that_are_none_are_refused(row: list[Any]) -> None:
    heard = Heard(Ask(model="m", prompt="x", top_logprobs=0), Reading(), Speaking("m", tokenizer()))
    meta = {"finish_reason": {"type": "stop"}, "output_token_logprobs": [row]}
    with pytest.raises(Refused, match="cannot be understood"):
        heard.hear_whole(json.dumps({"text": "a", "output_ids": [5], "meta_info": meta}).encode())
