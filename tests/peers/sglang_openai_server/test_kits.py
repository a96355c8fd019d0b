"""SGLang's kits of an API's contract, of sane answers, of what stops an answer, of aborts and pauses."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import httpx
import pytest

from support.ported_cases import ported

MODEL = "tutored"
CONTRACT = "python/sglang/test/kits/basic_api_contract_kit.py"
SANITY = "python/sglang/test/kits/server_sanity_kit.py"
STOP = "python/sglang/test/kits/matched_stop_kit.py"
ABORT = "python/sglang/test/kits/abort_timeout_kit.py"
PAUSE = "python/sglang/test/kits/pause_generation_kit.py"
FRANCE = "Q: What is the capital of France?\nA:"
CAPITALS = {
    "France": "paris",
    "Germany": "berlin",
    "Italy": "rome",
    "Japan": "tokyo",
    "Spain": "madrid",
    "Egypt": "cairo",
    "Russia": "moscow",
    "Australia": "canberra",
}
STORY = """
Please write an extremely detailed and vivid fantasy story, set in a world full of intricate magic systems, \
political intrigue, and complex characters.
Ensure that you thoroughly describe every scene, character's motivations, and the environment. Include long, \
engaging dialogues and elaborate on the inner thoughts of the characters.
Each section should be as comprehensive as possible to create a rich and immersive experience for the reader.
The story should span multiple events, challenges, and character developments over time. Aim to make the \
story at least 3,000 words long.
"""


@pytest.mark.parametrize("path", ["/health", "/health_generate"])
@pytest.mark.parametrize("kit", [CONTRACT, SANITY], ids=["basic_api_contract_kit", "server_sanity_kit"])
@ported("python/sglang/test/kits", "test_health, test_health_generate")
async def test_health(http: httpx.AsyncClient, kit: str, path: str):
    assert (await http.get(path)).status_code == 200


@ported(CONTRACT, "test_get_server_info")
async def test_the_servers_settings(http: httpx.AsyncClient):
    response = await http.get("/get_server_info")
    assert response.status_code == 200
    assert isinstance(response.json(), dict)
    assert len(response.json()) > 0


@ported(CONTRACT, "test_get_model_info")
async def test_the_models_path(http: httpx.AsyncClient):
    response = await http.get("/get_model_info")
    assert response.status_code == 200
    assert response.json()["model_path"]


@ported(CONTRACT, "test_openai_chat_completion")
async def test_a_chat_with_the_default_model(http: httpx.AsyncClient):
    asked = {
        "model": "default",
        "messages": [{"role": "user", "content": "Say hi in one word."}],
        "temperature": 0.0,
        "max_tokens": 16,
    }
    response = await http.post("/v1/chat/completions", json=asked)
    assert response.status_code == 200, response.text
    body = response.json()
    assert body["choices"][0]["message"]["content"]
    assert "usage" in body


@ported(CONTRACT, "test_openai_completion")
async def test_a_completion_with_the_default_model(http: httpx.AsyncClient):
    asked = {
        "model": "default",
        "prompt": "The capital of France is",
        "temperature": 0.0,
        "max_tokens": 16,
    }
    response = await http.post("/v1/completions", json=asked)
    assert response.status_code == 200, response.text
    body = response.json()
    assert body["choices"][0]["text"]
    assert "usage" in body


async def generate(http: httpx.AsyncClient, text: str, max_new_tokens: int = 64, **params: Any) -> str:
    sampling = {"temperature": 0.0, "max_new_tokens": max_new_tokens} | params
    response = await http.post("/generate", json={"text": text, "sampling_params": sampling})
    assert response.status_code == 200, response.text
    return response.json()["text"]


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        pytest.param(FRANCE, "paris", id="test_capital_france"),
        pytest.param(
            "Q: What is 17 multiplied by 23? Reply with just the number.\nA:", "391", id="test_basic_math"
        ),
        pytest.param(
            "Q: The three primary colors are red, blue, and ___. Fill in the blank.\nA:",
            "yellow",
            id="test_color_completion",
        ),
    ],
)
@ported(SANITY, "answers")
async def test_what_is_known_is_said(http: httpx.AsyncClient, prompt: str, said: str):
    assert said in (await generate(http, prompt)).lower()


@ported(SANITY, "test_ascii_ratio")
async def test_the_answer_is_readable(http: httpx.AsyncClient):
    text = await generate(http, "Write a single sentence about a sunny day in the park.", 128)
    readable = sum(32 <= ord(character) < 127 or character in "\n\t" for character in text)
    assert readable / max(len(text), 1) > 0.85, text


@ported(SANITY, "test_no_repetition_blowup")
async def test_the_answer_does_not_repeat_itself(http: httpx.AsyncClient):
    text = await generate(http, "Briefly explain what gravity is.", 128)
    if len(text) >= 50:
        windows = Counter(text[at : at + 5] for at in range(len(text) - 5))
        assert max(windows.values()) / windows.total() < 0.25, text


@ported(SANITY, "test_max_token_one")
async def test_one_token(http: httpx.AsyncClient):
    assert await generate(http, "Q: What is the capital of France? Just one word.\nA:", 1)


@ported(SANITY, "test_streaming_response")
async def test_a_stream(http: httpx.AsyncClient):
    asked = {
        "text": FRANCE,
        "sampling_params": {"temperature": 0.0, "max_new_tokens": 64},
        "stream": True,
    }
    response = await http.post("/generate", json=asked)
    assert response.status_code == 200
    lines = [line.removeprefix("data:").strip() for line in response.text.splitlines() if line]
    texts = [json.loads(line)["text"] for line in lines if line != "[DONE]"]
    assert len(texts) > 0
    assert "paris" in texts[-1].lower()


@ported(SANITY, "test_concurrent_requests")
async def test_requests_at_once(http: httpx.AsyncClient):
    lead = "You are a helpful assistant. Answer with a single word.\n"
    asked = [generate(http, f"{lead}Q: What is the capital of {country}?\nA:") for country in CAPITALS]
    answers = await asyncio.gather(*asked)
    right = sum(said in answer.lower() for answer, said in zip(answers, CAPITALS.values(), strict=True))
    assert right >= len(CAPITALS) - 1, answers


@ported(SANITY, "test_long_prompt")
async def test_a_long_prompt(start_engine):
    filler = "the quick brown fox jumps over the lazy dog. " * 800
    async with httpx.AsyncClient(base_url=start_engine(context_length=32_768), timeout=300) as http:
        assert await generate(http, f"Read the following text and then answer.\n{filler}\n\n{FRANCE}")


@ported(SANITY, "test_determinism_temp_zero")
async def test_a_greedy_answer_is_always_the_same(http: httpx.AsyncClient):
    prompt = "Q: What is the capital of France? Reply in one word.\nA:"
    answers = [await generate(http, prompt, stop=["\n"]) for _ in range(2)]
    assert answers[0].strip() == answers[1].strip()


async def ends(http: httpx.AsyncClient, prompt: str | None, chat: str | None, **fields: Any) -> list[Any]:
    """Why a completion and a chat end, and what stopped them; `prompt` or `chat` may be left out."""
    asked = {"model": MODEL, "temperature": 0, "top_p": 1} | fields
    system = {"role": "system", "content": "You are a helpful AI assistant"}
    told = []
    for path, given in (
        ("/v1/completions", prompt and {"prompt": prompt}),
        ("/v1/chat/completions", chat and {"messages": [system, {"role": "user", "content": chat}]}),
    ):
        if given:
            choice = (await http.post(path, json=asked | given)).json()["choices"][0]
            told.append((choice["finish_reason"], choice["matched_stop"]))
    return told


@ported(STOP, "test_finish_stop_str")
async def test_a_text_stops(http: httpx.AsyncClient):
    told = await ends(http, STORY, STORY, max_tokens=1000, stop="\n")
    assert told == [("stop", "\n"), ("stop", "\n")]


@ported(STOP, "test_finish_stop_regex_str")
async def test_a_regular_expression_stops(http: httpx.AsyncClient):
    told = await ends(http, STORY, STORY, max_tokens=1000, stop_regex="and|or")
    assert told == [("stop", "and|or"), ("stop", "and|or")]
    sentence = r"[.!?]\s*$"
    told = await ends(http, None, STORY, max_tokens=1000, stop_regex=sentence)
    assert told == [("stop", sentence)]


@ported(STOP, "test_finish_stop_eos")
async def test_the_end_token_stops(http: httpx.AsyncClient, tokenizer):
    question = [{"role": "user", "content": "What is 2 + 2?"}]
    prompt = tokenizer.apply_chat_template(question, add_generation_prompt=True, tokenize=False)
    end_tokens = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    told = await ends(http, prompt, "What is 2 + 2?", max_tokens=1000)
    assert [reason for reason, _ in told] == ["stop", "stop"]
    assert all(stop in end_tokens for _, stop in told)


@ported(STOP, "test_finish_length")
async def test_the_length_stops(http: httpx.AsyncClient):
    told = await ends(http, STORY, STORY, max_tokens=5)
    assert told == [("length", None), ("length", None)]


@ported(ABORT, "AbortAllMixin.test_abort_all")
async def test_everything_is_aborted(start_engine):
    url = start_engine(context_length=32_768)
    sampling = {"temperature": 0, "max_new_tokens": 16_000, "ignore_eos": True}
    asked = {"text": "The capital of France is", "sampling_params": sampling}
    limits = httpx.Limits(max_connections=40)
    async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as http:
        running = [asyncio.create_task(http.post("/generate", json=asked)) for _ in range(32)]
        await asyncio.sleep(2)
        (await http.post("/abort_request", json={"abort_all": True})).raise_for_status()
        for response in await asyncio.gather(*running):
            assert response.json()["meta_info"]["finish_reason"]["type"] == "abort"
        assert (await http.get("/health")).status_code == 200


@ported(PAUSE, "PauseResumeInPlaceMixin.test_pause_resume_in_place")
async def test_generation_pauses(start_engine):
    url = start_engine(context_length=32_768)
    sampling = {"temperature": 0.8, "max_new_tokens": 512, "ignore_eos": True}
    limits = httpx.Limits(max_connections=40)
    async with httpx.AsyncClient(base_url=url, timeout=180, limits=limits) as http:
        running = [
            asyncio.create_task(
                http.post(
                    "/generate",
                    json={
                        "text": f"Question {number}: Write a short essay about the number {number}.",
                        "sampling_params": sampling,
                    },
                )
            )
            for number in range(32)
        ]
        await asyncio.sleep(1)
        (await http.post("/pause_generation", json={"mode": "in_place"})).raise_for_status()
        await asyncio.sleep(0.5)
        before = sum(task.done() for task in running)
        await asyncio.sleep(2)
        assert before < 32
        assert sum(task.done() for task in running) == before
        (await http.post("/continue_generation", json={})).raise_for_status()
        for response in await asyncio.gather(*running):
            assert response.status_code == 200
            assert response.json()["text"]
