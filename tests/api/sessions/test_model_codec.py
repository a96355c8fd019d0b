"""Answers of workers that answer garbage."""

from __future__ import annotations

import json
from typing import Any

import pytest

from radixway.api.sessions.errors import WorkerRefusedError
from radixway.api.sessions.model_codec import GenerateResponseReader, ModelCodec
from radixway.core.parsers import AnswerFormat
from radixway.core.protocols import NormalizedRequest
from support.conversations import tokenizer


@pytest.mark.parametrize("row", [[], [-0.5], [-0.5, "five"], [-0.5, None], ["low", 5], [-0.5, 1.5]])
def test_scores_that_are_none_are_refused(row: list[Any]) -> None:
    heard = GenerateResponseReader(
        NormalizedRequest(model="m", prompt="x", top_logprobs=0), AnswerFormat(), ModelCodec("m", tokenizer())
    )
    meta = {"finish_reason": {"type": "stop"}, "output_token_logprobs": [row]}
    with pytest.raises(WorkerRefusedError, match="cannot be understood"):
        heard.read_whole_reply(json.dumps({"text": "a", "output_ids": [5], "meta_info": meta}).encode())
