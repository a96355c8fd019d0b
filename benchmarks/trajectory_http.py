"""What recording adds to a request on `/generate`: CPU time of a gateway that does, beside one that proxies.

Dialogues of three turns, all with one system prompt of 4 KB: 200 characters asked and 256 tokens answered a
turn, their log-probabilities with them, over 16 connections in a closed loop; everybody's first turn, then
everybody's second. Both gateways get the same bytes and pass on the same answer, which is compared byte for
byte. One only proxies; the other turns the text into tokens, and stores what comes back, with the tokenizer
of the bundled model. Afterwards it is asked for the trajectories, which must be exact.

The worker is `fake_worker.py`. CPU time is user and system time of the gateway's process tree.
"""

from __future__ import annotations

import contextlib
import json
import random
import statistics
import tempfile
import urllib.request
from dataclasses import dataclass, replace
from pathlib import Path

import radixway.bundled
from environments import PEERS_DIR
from load import Job, Load
from measured_gateways import Gateway, WrongAnswerError, fake_workers, running
from peers import RADIXWAY
from processes import cpu_seconds, stop
from radixway.core.tokenizer import Tokenizer
from report import print_table

TOKENIZER = Path(radixway.bundled.__file__).parent / "guide"
ANSWERED = 256
TURNS = 3
CONNECTIONS = 16
WORDS = ["the", "of", "and", "request", "gateway", "token", "prefix", "block", "worker", "answer", "turn"]
RECORDS = {
    "RADIXWAY__TRAJECTORIES__ENABLED": "true",
    "RADIXWAY__TRAJECTORIES__TOKENIZER": str(TOKENIZER),
}


@dataclass(frozen=True)
class Answer:
    """What the worker says to everything: as text, as tokens, as the body of a reply."""

    text: str
    ids: list[int]

    def body(self) -> bytes:
        """A reply of SGLang's."""
        logprobs = [[-at / 1000, token, None] for at, token in enumerate(self.ids)]
        meta = {
            "id": "0",
            "finish_reason": {"type": "stop", "matched": self.ids[-1]},
            "prompt_tokens": 1000,
            "completion_tokens": len(self.ids),
            "weight_version": "1",
            "output_token_logprobs": logprobs,
        }
        return json.dumps({"text": self.text, "output_ids": self.ids, "meta_info": meta}).encode()


def answer(tokenizer: Tokenizer) -> Answer:
    """`ANSWERED` tokens, the last of which ends the answer and is not shown."""
    words = tokenizer.encode(said(random.Random(0), 8 * ANSWERED))[: ANSWERED - 1]
    return Answer(tokenizer.decode(words), [*words, min(tokenizer.eos_token_ids)])


def dialogues(count: int, answered: str, seed: int) -> list[str]:
    """The texts to send, in order: the first turn of all dialogues, then the second, then the third."""
    rng = random.Random(seed)
    system = f"<|im_start|>system\n{said(random.Random(1), 4096)}<|im_end|>\n"
    texts = [system] * count
    sent = []
    for turn in range(TURNS):
        before = f"{answered}<|im_end|>\n" if turn else ""
        for number, text in enumerate(texts):
            question = f"<|im_start|>user\n{said(rng, 200)}<|im_end|>\n<|im_start|>assistant\n"
            texts[number] = text + before + question
        sent += texts
    return sent


def said(rng: random.Random, characters: int) -> str:
    """Some words."""
    return " ".join(rng.choices(WORDS, k=characters))[:characters]


def send(gateway: Gateway, load: Load, texts: list[str], replied: Path, scratch: Path) -> float:
    """Send all `texts`; the CPU seconds that the gateway took. Raises WrongAnswerError."""
    bodies = scratch / "bodies"
    parameters = {"max_new_tokens": ANSWERED, "temperature": 1.0}
    lines = [
        json.dumps({"text": text, "sampling_params": parameters, "return_logprob": True}) for text in texts
    ]
    bodies.write_text("\n".join(lines))
    job = Job(
        gateway.port,
        len(texts),
        CONNECTIONS,
        0,
        path="/generate",
        bodies_file=str(bodies),
        answer_file=str(replied),
    )
    before = cpu_seconds(gateway.pid or 0)
    result = load.run(job)
    if result.errors:
        raise WrongAnswerError(f"{gateway.name}: {next(iter(result.errors))}")
    return cpu_seconds(gateway.pid or 0) - before


def check_recorded(gateway: Gateway, text: str, answered: Answer) -> None:
    """Raise WrongAnswerError unless the gateway knows a dialogue exactly."""
    body = json.dumps({"text": text + answered.text}).encode()
    url = f"http://127.0.0.1:{gateway.port}/retrieve_from_text"
    with urllib.request.urlopen(
        urllib.request.Request(url, body, {"content-type": "application/json"}), timeout=30
    ) as reply:
        told = json.load(reply)
    if not told["exact"] or told["tokens"][-ANSWERED:] != answered.ids:
        raise WrongAnswerError(f"{gateway.name} does not know what it was sent")


def run(*, quick: bool, rounds: int | None) -> dict[str, object]:
    """Measure, print and return all figures. `rounds`: 5 by default, 3 if `quick`."""
    rounds = rounds or (3 if quick else 5)
    count = 200 if quick else 600
    answered = answer(Tokenizer.load(TOKENIZER))
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="radixway-bench-")))
        replied = scratch / "reply"
        replied.write_bytes(answered.body())
        workers = stack.enter_context(fake_workers(1, 4.0, "--generated", str(replied)))
        load = Load()
        stack.callback(stop, load.process)
        targets = replace(RADIXWAY, name="proxies"), replace(RADIXWAY, name="records", env=RECORDS)
        gateways = [stack.enter_context(running(target, workers, PEERS_DIR)) for target in targets]
        costs: dict[str, list[float]] = {gateway.name: [] for gateway in gateways}
        for number in range(-1, rounds):  # the first fills pools and caches
            texts = dialogues(count if number >= 0 else 20, answered.text, number)
            for gateway in gateways if number % 2 else reversed(gateways):
                cpu_s = send(gateway, load, texts, replied, scratch)
                if number >= 0:
                    costs[gateway.name].append(cpu_s / len(texts))
            check_recorded(gateways[1], texts[-1], answered)
    figures = summary(costs)
    show(figures, count, rounds)
    return figures


def summary(costs: dict[str, list[float]]) -> dict[str, object]:
    """Medians; `times` is the cost of recording over that of proxying, of the same round."""
    ratios = [one / other for one, other in zip(costs["records"], costs["proxies"], strict=True)]
    return {
        "cpu_ms": {name: statistics.median(each) * 1e3 for name, each in costs.items()},
        "requests_per_cpu_s": {name: 1 / statistics.median(each) for name, each in costs.items()},
        "times": statistics.median(ratios),
        "times_rounds": ratios,
    }


def show(figures: dict[str, object], count: int, rounds: int) -> None:
    """Print the table."""
    cpu_ms, rate = figures["cpu_ms"], figures["requests_per_cpu_s"]
    assert isinstance(cpu_ms, dict) and isinstance(rate, dict)
    rows = [[name, cpu_ms[name], rate[name], cpu_ms[name] / cpu_ms["proxies"]] for name in cpu_ms]
    title = f"/generate, {count} dialogues × {TURNS}, {ANSWERED} tokens answered; median of {rounds}"
    print_table(title, ["gateway", "CPU ms", "requests/CPU s", "cost beside"], rows)
