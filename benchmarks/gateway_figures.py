"""What a run of `gateway.py` shows: figures for machines, tables and sentences for the documentation."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from measured_gateways import Gateway
from report import Cell, MeasuredTable, format_cell

CPU_WORKS = {"1 KB": "1 KB", "16 KB": "16 KB", "stream": "streams"}
"""The kinds of requests whose CPU time is compared, and the tables' words for them."""
CONNECTIONS = {1: "1 KB × 1", 32: "1 KB", 128: "1 KB × 128"}
"""The kinds of requests whose latency is shown, by their connections."""
FIRST_BYTE = "first byte"
Document = dict[str, Any]


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of `values` lie."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def latency_figures(rounds: Sequence[Sequence[float]]) -> Document:
    """Milliseconds to the ends of the answers of all `rounds`, given in seconds."""
    every = sorted(latency for each in rounds for latency in each)
    return {
        "p50": percentile(every, 0.5) * 1e3,
        "p99": percentile(every, 0.99) * 1e3,
        "max": every[-1] * 1e3,
        "answers": len(every),
        "p99_by_round": [percentile(each, 0.99) * 1e3 for each in rounds],
    }


def gateway_figures(gateway: Gateway, direct: Gateway | None) -> Document:
    """All figures of one gateway as they go into the JSON file."""
    document: Document = {
        "cpu_s_per_1000": {
            name: {
                "median": statistics.median(values),
                "min": min(values),
                "max": max(values),
                "rounds": values,
            }
            for name, values in gateway.cpu_s.items()
            if gateway.pid
        },
        "latency_ms": {name: latency_figures(rounds) for name, rounds in gateway.latency_s.items()},
        "requests_per_s": {name: statistics.median(values) for name, values in gateway.rate.items()},
        "reads_per_answer": {name: statistics.median(values) for name, values in gateway.reads.items()},
        "load_cpu_s_per_1000": {name: statistics.median(each) for name, each in gateway.load_cpu_s.items()},
        "resident_mib": gateway.resident_bytes / 2**20,
    }
    for label, share in (("p50", 0.5), ("p99", 0.99)):
        first = percentile(gateway.first_byte_s[FIRST_BYTE], share)
        document[f"first_byte_ms_{label}"] = first * 1000
        if direct is not None and gateway is not direct:
            added = first - percentile(direct.first_byte_s[FIRST_BYTE], share)
            document[f"added_first_byte_ms_{label}"] = added * 1000
    return document


def cpu_table(measured: Mapping[str, Document]) -> MeasuredTable:
    """CPU time, added first byte and memory of each gateway."""
    rows: list[list[Cell]] = []
    for name, document in measured.items():
        if cpu := document["cpu_s_per_1000"]:
            added = [document.get(f"added_first_byte_ms_{label}") for label in ("p50", "p99")]
            rows.append([name, *(_cpu_cell(cpu[work]) for work in CPU_WORKS), *added])
            rows[-1].append(round(document["resident_mib"]))
    heads = ["gateway", *CPU_WORKS.values(), "first byte + ms, p50", "p99", "MiB"]
    return MeasuredTable(heads, rows)


def _cpu_cell(values: Document) -> str:
    return f"{values['median']:.3f} ± {(values['max'] - values['min']) / 2:.3f}"


def ratio_table(measured: Mapping[str, Document]) -> MeasuredTable:
    """How much CPU time we take for what takes a peer one second, round by round."""
    rows = [
        [name, *(f"{cpu_ratio(measured, name, work):.2f}" for work in CPU_WORKS)]
        for name, document in measured.items()
        if name != "radixway" and document["cpu_s_per_1000"]
    ]
    return MeasuredTable(["radixway's CPU over that of", *CPU_WORKS.values()], rows)


def cpu_ratio(measured: Mapping[str, Document], peer: str, work: str) -> float:
    """Our CPU seconds over the `peer`'s for one kind of work: the median of each round's own."""
    ours, theirs = (measured[name]["cpu_s_per_1000"][work]["rounds"] for name in ("radixway", peer))
    return statistics.median(our / their for our, their in zip(ours, theirs, strict=True))


def latency_table(measured: Mapping[str, Document]) -> MeasuredTable:
    """Milliseconds to whole answers at 1, 32 and 128 connections; the bare worker is the last row."""
    heads = ["gateway"]
    for connections in CONNECTIONS:
        heads += [f"{connections}: p50", "p99", "max"]
    rows: list[list[Cell]] = []
    for name, document in measured.items():
        rows.append([name])
        for work in CONNECTIONS.values():
            rows[-1] += [document["latency_ms"][work][label] for label in ("p50", "p99", "max")]
    return MeasuredTable(heads, rows)


def aims_table(measured: Mapping[str, Document], full: Mapping[str, Document] | None) -> MeasuredTable:
    """What we aim at, what was measured, and whether that suffices."""
    rows: list[list[Cell]] = []

    def add(aim: str, value: float, most: float, unit: str = "") -> None:
        rows.append([aim, f"{format_cell(value)}{unit}", "yes" if value <= most else "no"])

    for work, words in CPU_WORKS.items():
        if "sglang-router" in measured:
            add(
                f"CPU for {words} at most 1.0 × sglang-router's",
                cpu_ratio(measured, "sglang-router", work),
                1.0,
            )
    for peer in ("vllm-router", "smg", "litellm"):
        if peer in measured:
            worst = max(cpu_ratio(measured, peer, work) for work in CPU_WORKS)
            add(f"CPU below {peer}'s in every column, worst", worst, 1.0)
    add(
        "first byte of a stream at most 1 ms later",
        measured["radixway"]["added_first_byte_ms_p50"],
        1.0,
        " ms",
    )
    add("p99 at most 3 × p50 at 32 connections", _tail(measured["radixway"]["latency_ms"]["1 KB"]), 3.0)
    for name, document in (full or {}).items():
        add(f"the same with full journals and index, {name}", _tail(document["latency_ms"]), 3.0)
    return MeasuredTable(["aim", "measured", "reached"], rows)


def full_table(full: Mapping[str, Document]) -> MeasuredTable:
    """Latency and CPU time of a gateway with full journals and a full index."""
    rows: list[list[Cell]] = []
    for name, document in full.items():
        latency = document["latency_ms"]
        rows.append([name, *(latency[label] for label in ("p50", "p99", "max")), _tail(latency)])
        rows[-1].append(f"{document['cpu_s_per_1000']:.3f}")
    return MeasuredTable(["32 connections", "p50 ms", "p99", "max", "p99 / p50", "CPU-s per 1,000"], rows)


def _tail(latency: Document) -> float:
    return float(latency["p99"] / latency["p50"])


def load_sentence(document: Document) -> str:
    """What the load generator takes beside a gateway, so that nobody mistakes it for one."""
    for_one_s = document["load_cpu_s_per_1000"]["1 KB"] / 1e3
    return f"The load generator takes {for_one_s * 1e6:.0f} µs of CPU for a request of 1 KB"


def cost_sentence(measured: Mapping[str, Document]) -> str:
    """The answer to what a gateway costs a request, in one line."""
    said = []
    for peer in measured:
        if peer != "radixway" and measured[peer]["cpu_s_per_1000"]:
            ratios = sorted(cpu_ratio(measured, peer, work) for work in CPU_WORKS)
            low, high = (f"{ratio:.2f}" for ratio in (ratios[0], ratios[-1]))
            said.append(f"{low} to {high} × {peer}'s" if low != high else f"{low} × {peer}'s")
    added = measured["radixway"].get("added_first_byte_ms_p50")
    cpu = f"CPU time: {', '.join(said)}; " if said else ""
    return f"{cpu}{format_cell(added)} ms to the first byte"
