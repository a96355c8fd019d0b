"""What it costs a gateway to know a prompt: CPU µs per request, by source and size.

    python benchmarks/prompt_reading.py [--quick] [--json FILE] [--tokenizer DIR]

Chats of 1 to 64 KB in messages of 1 KB are read as the dispatch reads them, through `PromptReader`, until the
prompt's blocks are named:

    none          the policy reads no prompts, or there is one worker
    text          blocks of the JSON text
    ids           token ids in the request
    cold          the tokenizer, and nothing of the prompt is known (4 KB and more: in a thread)
    goes on       the tokenizer, and all but an answer and a question of 200 bytes each was read before
    again         the tokenizer, and the very prompt was read before

CPU time of the whole process, threads included; medians over rounds that take every case in turn.
"""

import argparse
import asyncio
import json
import random
import statistics
import time
from pathlib import Path
from typing import Any

import radixway.bundled
from radixway.core.config import RoutingConfig, WorkerSettings
from radixway.core.pipeline import ENDPOINTS, Request
from radixway.core.telemetry import Journal
from radixway.core.tokenizer import Tokenizer, render_chat
from radixway.routing import PromptReader, RoutingRequest, TokenizerRegistry, Worker
from radixway.routing.prompt_reader import PromptNeeds
from radixway.routing.worker import ServerInfo
from report import MeasuredTable, write_measurement

SIZES_KB = (1, 4, 16, 64)
CASES = {
    "none": "no policy reads it",
    "text": "text",
    "ids": "token ids in the request",
    "cold": "tokenizer, nothing known",
    "goes on": "tokenizer, the conversation goes on",
    "again": "tokenizer, read before",
}
WORDS = (
    "the",
    "gateway",
    "sends",
    "each",
    "request",
    "where",
    "its",
    "prefix",
    "lives",
    "and",
    "explains",
    "why",
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds; ends within a minute")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--tokenizer", type=Path, help="a model directory; by default the bundled model's")
    given = parser.parse_args()
    directory = given.tokenizer or Path(radixway.bundled.__file__).parent / "guide"
    figures = asyncio.run(measure(directory, rounds=7 if given.quick else 31))
    columns = ["", *(f"{size} KB" for size in SIZES_KB)]
    table = MeasuredTable(columns, [[CASES[case], *figures[case].values()] for case in CASES])
    table.print("CPU µs per request until its blocks are known")
    if given.json:
        paths = ["src/radixway/routing", "src/radixway/core/tokenizer", "benchmarks/prompt_reading.py"]
        write_measurement(given.json, {"cpu_us": table}, {"cpu_us": figures}, paths=paths)


async def measure(directory: Path, rounds: int) -> dict[str, dict[str, float]]:
    """By case and size."""
    bench = Bench(directory)
    seconds: dict[tuple[str, int], list[float]] = {(case, kb): [] for case in CASES for kb in SIZES_KB}
    for _ in range(rounds):
        for case, kb in seconds:
            seconds[case, kb].append(await bench.time(case, kb))
    return {
        case: {f"{kb} KB": 1e6 * statistics.median(seconds[case, kb]) for kb in SIZES_KB} for case in CASES
    }


class Bench:
    """Bodies without end, and readers that begin with nothing."""

    def __init__(self, directory: Path) -> None:
        self._random = random.Random(1)
        self._tokenizer = Tokenizer.load(directory)
        config = RoutingConfig(tokenizers={"m": str(directory)})
        tokenizers = TokenizerRegistry(config)
        tokenizers.wait_loaded()
        self._by_tokens = PromptReader(config, tokenizers)
        plain = RoutingConfig()
        self._by_text = PromptReader(plain, TokenizerRegistry(plain))
        self._workers = [
            Worker(WorkerSettings(url=f"http://w{i}"), ServerInfo(models=("m",))) for i in (1, 2)
        ]

    async def time(self, case: str, kb: int) -> float:
        """Seconds of CPU for one request of that size, the mean of several."""
        count = max(2, 32 // kb) if case in ("cold", "goes on") else max(4, 128 // kb)
        chats = [self._chat(kb) for _ in range(count)]
        bodies = [{"messages": chat} for chat in chats]
        if case in ("goes on", "again"):
            await self._read(self._by_tokens, bodies)
        if case == "goes on":
            bodies = [{"messages": [*chat, self._message(200), self._message(200)]} for chat in chats]
        elif case == "ids":
            bodies = [{"messages": [], "prompt_token_ids": self._ids(chat)} for chat in chats]
        reader = self._by_text if case in ("none", "text") else self._by_tokens
        requests = [_request(body) for body in bodies]
        start = time.process_time()
        await self._read_all(reader, requests, PromptNeeds(case != "none", False, False))
        return (time.process_time() - start) / count

    async def _read(self, reader: PromptReader, bodies: list[dict[str, Any]]) -> None:
        await self._read_all(reader, [_request(body) for body in bodies], PromptNeeds(True, False, False))

    async def _read_all(self, reader: PromptReader, requests: list[Request], policy: PromptNeeds) -> None:
        for request in requests:
            found = reader.read_prompt(request, policy, self._workers)
            if not isinstance(found, RoutingRequest):
                await found

    def _ids(self, chat: list[dict[str, str]]) -> list[int]:
        return self._tokenizer.encode(render_chat(self._tokenizer, chat), add_special_tokens=False)

    def _chat(self, kb: int) -> list[dict[str, str]]:
        return [self._message(1000) for _ in range(kb)]

    def _message(self, size: int) -> dict[str, str]:
        text = " ".join(self._random.choices(WORDS, k=size // 4))
        return {"role": "user", "content": f"{self._random.random()} {text}"[:size]}


def _request(body: dict[str, Any]) -> Request:
    raw = json.dumps({"model": "m", **body}).encode()
    return Request(
        id="r", endpoint=ENDPOINTS["openai.chat"], path="/", journal=Journal("r"), raw=raw, model="m"
    )


if __name__ == "__main__":
    main()
