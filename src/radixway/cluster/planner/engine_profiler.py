"""Measures one engine over its OpenAI API, and fits the planner's profile to the samples."""

import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import linear_regression, median
from time import perf_counter

import aiohttp

from radixway.core.config import ProfileConfig
from radixway.core.http.server_sent_events import iterate_data, read_events

_WORDS = ("time", "year", "people", "way", "day", "man", "thing", "life", "child", "world", "school")
_DECODED = 24
_ROUNDS = 3


class ProfilingError(Exception):
    """The engine did not answer as it should; the message says what it did."""


@dataclass(frozen=True, slots=True)
class PrefillSample:
    """A prompt that was prefilled alone."""

    prompt_tokens: int
    ttft_s: float


@dataclass(frozen=True, slots=True)
class DecodeSample:
    """Requests that decode at the same time."""

    requests: int
    context_tokens: float
    gap_s: float
    """Seconds between tokens, once all have their first."""


def fit_profile(
    alone: Sequence[PrefillSample], together: Sequence[DecodeSample], startup_s: float
) -> ProfileConfig:
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
    of_short, of_long = (_fit_gap_line(each) for each in (short, long))
    apart = _mean_context_tokens(long) - _mean_context_tokens(short)
    context_s = max(0.0, (of_long[0] - of_short[0]) / apart)
    return ProfileConfig(
        step_s=max(0.0, of_short[1]),
        prefill_s=max(1e-9, prefill.slope),
        decode_s=max(0.0, of_short[0] - context_s * _mean_context_tokens(short)),
        context_s=context_s,
        startup_s=startup_s,
    )


async def measure_engine(
    url: str, model: str, key: str | None = None, lengths: Sequence[int] = (64, 256, 768, 1280)
) -> tuple[list[PrefillSample], list[DecodeSample]]:
    """Measure the otherwise idle engine at `url`. `lengths`: words of prompts; none is sent twice.

    Raises ProfilingError.
    """
    headers = {"authorization": f"Bearer {key}"} if key else {}
    draw = random.Random()
    try:
        async with aiohttp.ClientSession(
            base_url=url, headers=headers, timeout=aiohttp.ClientTimeout(total=300)
        ) as session:
            asking = _ProfilingClient(session, model, draw)
            await asking.send_prompt(lengths[0], 2)  # whatever is done only once
            alone = [await _measure_prefill(asking, words) for words in lengths for _ in range(_ROUNDS)]
            together = [
                await _measure_decode(asking, words, requests)
                for words in (lengths[0], lengths[-1])
                for requests in (1, 4, 8)
            ]
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise ProfilingError(f"no engine answers at {url}: {error or type(error).__name__}") from None
    return alone, together


@dataclass(frozen=True, slots=True)
class _TimedAnswer:
    prompt_tokens: int
    sent: float
    came: list[float]


class _ProfilingClient:
    def __init__(self, session: aiohttp.ClientSession, model: str, draw: random.Random) -> None:
        self._session = session
        self._model = model
        self._draw = draw

    async def send_prompt(self, words: int, tokens: int) -> _TimedAnswer:
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
                raise ProfilingError(f"{response.url} answered {response.status}: {await response.text()}")
            async for raw in read_events(response.content.iter_any()):
                for data in iterate_data(raw):
                    event = json.loads(data)
                    if event.get("choices"):
                        came.append(perf_counter())
                    if event.get("usage"):
                        prompt_tokens = event["usage"]["prompt_tokens"]
        if not came or not prompt_tokens:
            raise ProfilingError(f"{response.url} streamed no tokens, or no usage")
        return _TimedAnswer(prompt_tokens, sent, came)


async def _measure_prefill(asking: _ProfilingClient, words: int) -> PrefillSample:
    answer = await asking.send_prompt(words, 1)
    return PrefillSample(answer.prompt_tokens, answer.came[0] - answer.sent)


async def _measure_decode(asking: _ProfilingClient, words: int, requests: int) -> DecodeSample:
    answers = await asyncio.gather(*(asking.send_prompt(words, _DECODED) for _ in range(requests)))
    all_began = max(answer.came[0] for answer in answers)
    gaps = [b - a for answer in answers for a, b in pairwise(answer.came) if a >= all_began]
    if not gaps:
        raise ProfilingError("answers were too short, or did not overlap")
    context = median(answer.prompt_tokens for answer in answers) + _DECODED / 2
    return DecodeSample(requests, context, median(gaps))


def _fit_gap_line(batches: Sequence[DecodeSample]) -> tuple[float, float]:
    slope, intercept = linear_regression(
        [each.requests for each in batches], [each.gap_s for each in batches]
    )
    return slope, intercept


def _mean_context_tokens(batches: Sequence[DecodeSample]) -> float:
    return sum(each.context_tokens for each in batches) / len(batches)
