"""Measures one engine over its OpenAI door, and fits to that what the planner must know of it."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import linear_regression, median
from time import perf_counter

import aiohttp

from radixway.config import ProfileSection
from radixway.web.server_sent_events import iterate_data, read_events

_WORDS = ("time", "year", "people", "way", "day", "man", "thing", "life", "child", "world", "school")
_DECODED = 24
_ROUNDS = 3


class ProfilingFailed(Exception):
    """The engine did not answer as it should; the message says what it did."""


@dataclass(frozen=True, slots=True)
class Alone:
    """One prompt with nothing beside it."""

    prompt_tokens: int
    ttft_s: float


@dataclass(frozen=True, slots=True)
class Together:
    """Some requests that decode at the same time."""

    requests: int
    context_tokens: float
    gap_s: float
    """Between tokens, once all have their first."""


def fit(alone: Sequence[Alone], together: Sequence[Together], startup_s: float) -> ProfileSection:
    """The constants by linear regression: prefills over their length, gaps over requests, short and long.

    `alone` and `together` need two lengths each, and `together` two sizes at each length. Raises ValueError.
    """
    prefill = linear_regression([one.prompt_tokens for one in alone], [one.ttft_s for one in alone])
    lengths = sorted({round(each.context_tokens) for each in together})
    if len(lengths) < 2:
        raise ValueError("batches of two lengths are needed")
    middle = (lengths[0] + lengths[-1]) / 2
    short = [each for each in together if each.context_tokens < middle]
    long = [each for each in together if each.context_tokens >= middle]
    of_short, of_long = (_over_requests(each) for each in (short, long))
    apart = _context(long) - _context(short)
    context_s = max(0.0, (of_long[0] - of_short[0]) / apart)
    return ProfileSection(
        step_s=max(0.0, of_short[1]),
        prefill_s=max(1e-9, prefill.slope),
        decode_s=max(0.0, of_short[0] - context_s * _context(short)),
        context_s=context_s,
        startup_s=startup_s,
    )


async def measure(
    url: str, model: str, key: str | None = None, lengths: Sequence[int] = (64, 256, 768, 1280)
) -> tuple[list[Alone], list[Together]]:
    """Ask the engine at `url`, with nobody else asking. `lengths`: words of prompts; none is sent twice.

    Raises ProfilingFailed.
    """
    headers = {"authorization": f"Bearer {key}"} if key else {}
    draw = random.Random()
    try:
        async with aiohttp.ClientSession(
            base_url=url, headers=headers, timeout=aiohttp.ClientTimeout(total=300)
        ) as session:
            asking = _Asking(session, model, draw)
            await asking.one(lengths[0], 2)  # whatever is done only once
            alone = [await _alone(asking, words) for words in lengths for _ in range(_ROUNDS)]
            together = [
                await _together(asking, words, requests)
                for words in (lengths[0], lengths[-1])
                for requests in (1, 4, 8)
            ]
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise ProfilingFailed(f"no engine answers at {url}: {error or type(error).__name__}") from None
    return alone, together


@dataclass(frozen=True, slots=True)
class _Answer:
    prompt_tokens: int
    sent: float
    came: list[float]


class _Asking:
    def __init__(self, session: aiohttp.ClientSession, model: str, draw: random.Random) -> None:
        self._session = session
        self._model = model
        self._draw = draw

    async def one(self, words: int, tokens: int) -> _Answer:
        prompt = " ".join([f"{self._draw.randrange(10**9)}", *self._draw.choices(_WORDS, k=words)])
        body = {
            "model": self._model,
            "prompt": prompt,
            "max_tokens": tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        sent, came, prompt_tokens = perf_counter(), [], 0
        async with self._session.post("/v1/completions", json=body) as response:
            if response.status != 200:
                raise ProfilingFailed(f"{response.url} answered {response.status}: {await response.text()}")
            async for raw in read_events(response.content.iter_any()):
                for data in iterate_data(raw):
                    event = json.loads(data)
                    if event.get("choices"):
                        came.append(perf_counter())
                    if event.get("usage"):
                        prompt_tokens = event["usage"]["prompt_tokens"]
        if not came or not prompt_tokens:
            raise ProfilingFailed(f"{response.url} streamed no tokens, or no usage")
        return _Answer(prompt_tokens, sent, came)


async def _alone(asking: _Asking, words: int) -> Alone:
    answer = await asking.one(words, 1)
    return Alone(answer.prompt_tokens, answer.came[0] - answer.sent)


async def _together(asking: _Asking, words: int, requests: int) -> Together:
    answers = await asyncio.gather(*(asking.one(words, _DECODED) for _ in range(requests)))
    all_began = max(answer.came[0] for answer in answers)
    gaps = [b - a for answer in answers for a, b in pairwise(answer.came) if a >= all_began]
    if not gaps:
        raise ProfilingFailed("answers were too short, or did not overlap")
    context = median(answer.prompt_tokens for answer in answers) + _DECODED / 2
    return Together(requests, context, median(gaps))


def _over_requests(batches: Sequence[Together]) -> tuple[float, float]:
    slope, intercept = linear_regression(
        [each.requests for each in batches], [each.gap_s for each in batches]
    )
    return slope, intercept


def _context(batches: Sequence[Together]) -> float:
    return sum(each.context_tokens for each in batches) / len(batches)
