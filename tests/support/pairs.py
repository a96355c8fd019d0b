"""A prefill engine and a decode engine in one process, each with its thread."""

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radixway.core.config.engine import EngineConfig
from radixway.engine.disaggregation import TransferStats
from radixway.engine.engine import Engine
from radixway.engine.engine_request import BootstrapRoom, RequestOutput
from radixway.engine.generation_stream import GenerationStream
from radixway.engine.sampling_params import SamplingParams

GREEDY = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)

_rooms = itertools.count(1)


def new_engine(model: Path | str, mode: str = "null", **options: Any) -> Engine:
    """An engine that runs: float32, pages of 4 tokens, steps of 64, unless `options` say otherwise."""
    defaults = {
        "model": str(model),
        "dtype": "float32",
        "threads": 1,
        "page_size": 4,
        "kv_tokens": 4096,
        "max_batch_tokens": 64,
        "disaggregation_mode": mode,
        "disaggregation_bootstrap_port": 0,
    }
    engine = Engine(EngineConfig(**defaults | options))
    engine.start()
    return engine


@dataclass
class Pair:
    """Two engines that know of each other by the rooms of requests."""

    prefill: Engine
    decode: Engine

    def room(self) -> BootstrapRoom:
        """A fresh one, at the prefill engine."""
        return BootstrapRoom("127.0.0.1", self.prefill.bootstrap_port or 0, next(_rooms))

    def begin(
        self, prompt: Sequence[int], params: SamplingParams = GREEDY, **options: Any
    ) -> tuple[GenerationStream, GenerationStream]:
        """Ask both, as a gateway does."""
        room = self.room()
        prefilling = self.prefill.submit_request(prompt, params, room=room, **options)
        return prefilling, self.decode.submit_request(prompt, params, room=room, **options)

    async def answer(
        self, prompt: Sequence[int], params: SamplingParams = GREEDY, **options: Any
    ) -> list[RequestOutput]:
        """The decode engine's outputs, when the prefill engine is through as well."""
        prefilling, answering = self.begin(prompt, params, **options)
        _, outputs = await asyncio.gather(whole(prefilling), whole(answering))
        return outputs

    def sent(self) -> TransferStats:
        return transfers(self.prefill)

    def received(self) -> TransferStats:
        return transfers(self.decode)


@contextmanager
def pair(model: Path | str, prefill: Any = None, decode: Any = None, **options: Any) -> Iterator[Pair]:
    """Both engines, with options for both or for one of them."""
    first = new_engine(model, "prefill", **options | (prefill or {}))
    try:
        second = new_engine(model, "decode", **options | (decode or {}))
        try:
            yield Pair(first, second)
        finally:
            second.stop()
    finally:
        first.stop()


def transfers(engine: Engine) -> TransferStats:
    stats = engine.stats().transfers
    assert stats is not None
    return stats


async def whole(generation: GenerationStream) -> list[RequestOutput]:
    return [output async for output in generation]


def tokens(outputs: Sequence[RequestOutput]) -> list[int]:
    return [token for output in outputs for token in output.token_ids]


async def checked(engine: Engine) -> None:
    """Wait until an engine has nothing left to do or to send, and check all its accounts."""
    while (stats := engine.stats()).running or stats.waiting or stats.loading or stats.departing:
        await asyncio.to_thread(engine._call_on_thread, lambda: None)
    await asyncio.to_thread(engine._call_on_thread, engine._core.scheduler.check)
    assert engine.stats().kv_used == 0
