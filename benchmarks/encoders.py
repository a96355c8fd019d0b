"""What a text costs in each of the encoder's forms, and how near its vectors are to float32's.

    OMP_NUM_THREADS=1 python benchmarks/encoders.py [--quick] [--json FILE] [--model DIR]

    numpy       float32, straight from the safetensors
    fp32        the same in onnxruntime
    int8        what runs by default: weights have a scale per output channel, activations one per call

Medians in ms of one thread's CPU time and of the clock, over rounds that take every form in turn. The last
table says what reading eight texts in one call would save, and what it would do to their vectors: in int8
they share the activations' scale. Which is why windows run one at a time.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from onnxruntime import InferenceSession

from radixway.core.config import EncodersConfig
from radixway.semantics.encoders import TextEncoder, load_encoder
from radixway.semantics.encoders.onnx_session import open_session
from report import print_table, write_json

FORMS = ("numpy", "fp32", "int8")
TOKENS = (12, 90, 254, 512)
TEXTS = (
    "How do I reset my password?",
    "2+2=?",
    "Explain the causes of World War I.",
    "证明费马大定理",
    "请逐步解释勾股定理的证明",
    "What is the boiling point of water at 2,000 m above sea level?",
    "Write a Python function that returns the n-th Fibonacci number in O(log n).",
    "Is it safe to eat raw eggs?",
    "Translate 'where is the station' into French and Japanese.",
    "My landlord keeps my deposit although I left the flat clean. What can I do about it in Germany?",
    "Compare Keynesian and monetarist views of inflation in three sentences.",
    "SELECT name, count(*) FROM orders GROUP BY name HAVING count(*) > 5; -- why is this slow?",
    "Which enzymes unwind DNA during replication, and in which order do they act?",
    "Draft a polite reminder for an unpaid invoice of 1,250 EUR, due on 3 March.",
    "A ball is thrown upwards at 20 m/s. How high does it rise, and when is it back?",
    "我想学吉他，应该从哪里开始？",
    "Summarise the plot of Hamlet for a ten-year-old.",
    "What did Kant mean by the categorical imperative?",
    "Kubernetes pod is stuck in CrashLoopBackOff, logs say 'permission denied' on /var/run; how do I fix it?",
    "hi",
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="5 rounds instead of 25")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--model", default=EncodersConfig().model, help="a BERT's directory or hub id")
    options = parser.parse_args()
    rounds = 5 if options.quick else 25
    with tempfile.TemporaryDirectory() as home:
        sections = {
            form: EncodersConfig(model=options.model, backend=form, home=Path(home)) for form in FORMS
        }
        encoders = {form: load_encoder(section) for form, section in sections.items()}
        figures = {
            "latency": latency(encoders, rounds),
            "nearness": nearness(encoders),
            "batch": batch(next(Path(home).glob("*-int8.*.onnx")), rounds),
        }
    print_latency(figures["latency"])
    print_nearness(figures["nearness"])
    print_batch(figures["batch"])
    if options.json:
        write_json(options.json, figures)


def latency(encoders: dict[str, TextEncoder], rounds: int) -> dict[str, dict[str, dict[str, float]]]:
    """Form → tokens → {cpu_ms, wall_ms}, medians."""
    taken: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for _ in range(rounds + 1):  # the first is for warmth
        for tokens in TOKENS:
            text = " ".join((["river", "copper", "apple"] * tokens)[:tokens])
            for form, encoder in encoders.items():
                taken.setdefault((form, tokens), []).append(
                    timed(partial(encoder.encode, [text], layers=(2, 4, 6)))
                )
    return {form: {str(tokens): medians(taken[form, tokens][1:]) for tokens in TOKENS} for form in encoders}


def nearness(encoders: dict[str, TextEncoder]) -> dict[str, dict[str, float]]:
    """Form → how near its vectors, and its tokens' states in layers 2, 4 and 6, are to numpy's: cosines."""
    exact = encoders["numpy"].encode(TEXTS, layers=(2, 4, 6))
    found = {}
    for form, encoder in encoders.items():
        near = encoder.encode(TEXTS, layers=(2, 4, 6))
        vectors = [cosine(a.vector, b.vector) for a, b in zip(exact, near, strict=True)]
        pairs = [(a.states[n], b.states[n]) for a, b in zip(exact, near, strict=True) for n in a.states]
        states = [cosine(x, y) for a, b in pairs for x, y in zip(a, b, strict=True)]
        found[form] = {
            "mean": statistics.mean(vectors),
            "least": min(vectors),
            "states": statistics.mean(states),
        }
    return found


def batch(prepared: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Tokens → CPU ms a text alone and in a batch of eight, and the least cosine between the two vectors."""
    session = open_session(prepared)
    figures = {}
    for tokens in TOKENS[:3]:
        ids = np.random.default_rng(1).integers(2000, 20000, (8, tokens))
        ids[:, 0], ids[:, -1] = 101, 102
        alone, together = [], []
        for _ in range(rounds + 1):
            alone.append(timed(partial(run, session, ids[:, np.newaxis])))
            together.append(timed(partial(run, session, ids[np.newaxis])))
        singles = [states.mean(axis=1)[0] for states in run(session, ids[:, np.newaxis])]
        (joint,) = (states.mean(axis=1) for states in run(session, ids[np.newaxis]))
        figures[str(tokens)] = {
            "alone_cpu_ms": medians(alone[1:])["cpu_ms"] / 8,
            "batched_cpu_ms": medians(together[1:])["cpu_ms"] / 8,
            "least_cosine": min(cosine(a, b) for a, b in zip(singles, joint, strict=True)),
        }
    return figures


def run(session: InferenceSession, batches: np.ndarray) -> list[np.ndarray]:
    """The last layer's states, [batch, n, size], for each of the calls in [calls, batch, n]."""
    output = session.get_outputs()[-1].name
    return [session.run([output], {"ids": ids})[0] for ids in batches]


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """CPU ms of this thread, ms on the clock."""
    cpu, wall = time.thread_time(), time.perf_counter()
    run()
    return (time.thread_time() - cpu) * 1e3, (time.perf_counter() - wall) * 1e3


def medians(taken: list[tuple[float, float]]) -> dict[str, float]:
    cpu, wall = zip(*taken, strict=True)
    return {"cpu_ms": statistics.median(cpu), "wall_ms": statistics.median(wall)}


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def print_latency(figures: dict[str, dict[str, dict[str, float]]]) -> None:
    columns = ["form", *(f"{tokens} tokens" for tokens in TOKENS)]
    for kind, title in (("cpu_ms", "CPU ms a text, one thread"), ("wall_ms", "ms a text on the clock")):
        rows = [[form, *(told[str(tokens)][kind] for tokens in TOKENS)] for form, told in figures.items()]
        print_table(title, columns, rows)


def print_nearness(figures: dict[str, dict[str, float]]) -> None:
    rows = [
        [form, *(f"{told[name]:.4f}" for name in ("mean", "least", "states"))]
        for form, told in figures.items()
    ]
    print_table(
        "cosine with float32 in numpy", ["form", "vectors, mean", "vectors, least", "states, mean"], rows
    )


def print_batch(figures: dict[str, dict[str, float]]) -> None:
    rows = [
        [f"{tokens} tokens", told["alone_cpu_ms"], told["batched_cpu_ms"], f"{told['least_cosine']:.4f}"]
        for tokens, told in figures.items()
    ]
    columns = ["int8", "alone", "in a batch of 8", "least cosine of the two"]
    print_table("CPU ms a text, by how many are read in a call", columns, rows)


if __name__ == "__main__":
    main()
