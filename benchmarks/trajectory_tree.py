"""What finding and storing trajectories costs, beside the tree that Slime's router published.

Conversations take turns: each turn looks its text up, reads the tokens, log-probabilities and mask of what
was found as lists, and stores the whole conversation as it is after the reply. All begin with the same
system prompt, and groups of eight, as GRPO samples them, with the same question; a question has 200
characters, a reply 600, a token four. Ids and log-probabilities are Python's own numbers, fresh for each
call as `json.loads` makes them. What is found is compared with what was stored.

Three trees do the same: ours where a tokenizer says which text each token is, ours without one, and
`published_trie.py`. Every line runs in a process of its own. Times are CPU time of the calls alone, the
median of several rounds in which the trees take turns. Memory is what the resident set grew by while the
tree was filled; `counted` is what our store says of itself, by which its bound holds.
"""

from __future__ import annotations

import gc
import statistics
import time
from array import array
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from hashlib import shake_128
from multiprocessing import get_context
from os import getpid

from processes import resident_bytes
from published_trie import PublishedTrie
from radixway.trajectories import StringRadixTrie
from report import Cell, print_table

GROUP = 8
QUESTION, REPLY = 50, 150
"""Tokens."""
FIRST_ID = 1000
WORDS = [" " + "".join("etaoinshrdlucmfw"[i >> shift & 15] for shift in (0, 4, 8)) for i in range(4096)]
CHARACTERS = 4
"""Of a token."""
TREES = "published", "ours, tokens known", "ours, no tokenizer"
COLUMNS = {
    "pairs_per_s": "pairs/s",
    "times": "beside",
    "find_us": "find µs",
    "insert_us": "insert µs",
    "first_turn_hits": "first-turn hits",
    "tokens": "tokens kept",
    "bytes_per_token": "bytes/token",
    "counted_bytes_per_token": "counted",
}


@dataclass(frozen=True)
class Workload:
    """One line of the table. Of the turns behind the first, one conversation in `one_in` takes part."""

    conversations: int
    turns: int
    prompt_kb: int
    one_in: int = 1

    @property
    def name(self) -> str:
        return f"{self.conversations:,} × {self.turns}, {self.prompt_kb} KB of shared prompt"

    def conversation(self, number: int, turn: int) -> tuple[list[int], list[float], list[int]]:
        """Ids, log-probabilities and mask up to the end of that turn's reply; fresh objects at every call."""
        ids = _ids("system prompt", 256 * self.prompt_kb)
        logp: list[float] = [0.0] * len(ids)
        for at in range(turn + 1):
            ids += _ids(f"{at} {number if at else number // GROUP}", QUESTION)
            ids += _ids(f"reply {at} {number}", REPLY)
            logp += [0.0] * QUESTION + _logprobs(f"{at} {number}", REPLY)
        mask = [0] * 256 * self.prompt_kb + ([0] * QUESTION + [1] * REPLY) * (turn + 1)
        return ids, logp, mask

    def turns_in_order(self) -> Iterator[tuple[int, int]]:
        """Conversation and turn; everybody's first turn, then everybody's second."""
        for turn in range(self.turns):
            for number in range(0, self.conversations, self.one_in if turn else 1):
                yield number, turn


class Words:
    """A tokenizer of 4,096 tokens of four characters."""

    all_special_ids = ()

    def encode(self, text: str) -> list[int]:
        ids = {word: FIRST_ID + at for at, word in enumerate(WORDS)}
        return [ids[text[at : at + 4]] for at in range(0, len(text), 4)]

    def decode(self, ids: list[int]) -> str:
        return "".join(WORDS[token_id - FIRST_ID] for token_id in ids)


def measure(work: Workload, tree_name: str) -> dict[str, float]:
    """Fill a tree, timing it; everything by the names in `COLUMNS`."""
    trie = _tree(tree_name)
    take_turn(trie, replace(work, conversations=1, prompt_kb=0), 0, 0)  # what is made once, is made here
    trie = _tree(tree_name)
    gc.collect()
    gc.freeze()
    before = resident_bytes(getpid())
    find_s, insert_s, pairs, hits = 0.0, 0.0, 0, 0
    for number, turn in work.turns_in_order():
        found, find, insert = take_turn(trie, work, number, turn)
        weight = work.one_in if turn else 1
        find_s += find * weight
        insert_s += insert * weight
        pairs += weight
        hits += found > 0 and not turn
    gc.collect()
    tokens = trie.tokens if isinstance(trie, PublishedTrie) else trie.cur_cache_size
    figures: dict[str, float] = {
        "pairs_per_s": pairs / (find_s + insert_s),
        "find_us": find_s / pairs * 1e6,
        "insert_us": insert_s / pairs * 1e6,
        "first_turn_hits": hits,
        "tokens": tokens,
        "bytes_per_token": (resident_bytes(getpid()) - before) / tokens,
    }
    if isinstance(trie, StringRadixTrie):
        figures["counted_bytes_per_token"] = trie.store.nbytes / tokens
    return figures


def take_turn(
    trie: StringRadixTrie | PublishedTrie, work: Workload, number: int, turn: int
) -> tuple[int, float, float]:
    """One lookup and one insertion: how many tokens were found, and the seconds that each took."""
    ids, logp, mask = work.conversation(number, turn)
    text = _text(ids)
    asked = text[: -REPLY * CHARACTERS]
    start = time.thread_time()
    found = trie.find_longest_prefix(asked)
    found_ids, found_logp, found_mask = found.token_ids, found.logp, found.loss_mask
    find_s = time.thread_time() - start
    known = len(found_ids)
    assert found.matched_prefix == asked[: known * CHARACTERS], "another text than was asked for"
    assert found_ids == ids[:known], "other tokens than were stored"
    assert found_mask == mask[:known], "another mask than was stored"
    assert array("f", found_logp) == array("f", logp[:known]), "other log-probabilities than were stored"
    start = time.thread_time()
    trie.insert(text, ids, logp, mask, 1)
    return known, find_s, time.thread_time() - start


def _tree(name: str) -> StringRadixTrie | PublishedTrie:
    if name == "published":
        return PublishedTrie()
    return StringRadixTrie(10**9, tokenizer=Words() if name == "ours, tokens known" else None)


def _ids(name: str, count: int) -> list[int]:
    """Token ids, random and the same for the same name."""
    return [FIRST_ID + (number & 4095) for number in _numbers(name, count)]


def _logprobs(name: str, count: int) -> list[float]:
    return [-number / 8192 for number in _numbers(name, count)]


def _numbers(name: str, count: int) -> array[int]:
    return array("H", shake_128(name.encode()).digest(2 * count))


def _text(ids: list[int]) -> str:
    return "".join([WORDS[token_id - FIRST_ID] for token_id in ids])


def measure_side_by_side(work: Workload, rounds: int) -> dict[str, dict[str, float]]:
    """The medians of every tree's figures, and `times`: pairs a second beside the published tree."""
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in TREES}
    for at in range(rounds):
        for name in TREES[at % len(TREES) :] + TREES[: at % len(TREES)]:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
                measured[name].append(fresh.submit(measure, work, name).result())
    figures = {
        name: {key: statistics.median(each[key] for each in all_of) for key in all_of[0]}
        for name, all_of in measured.items()
    }
    for each in figures.values():
        each["times"] = each["pairs_per_s"] / figures["published"]["pairs_per_s"]
    return figures


def show(work: Workload, figures: dict[str, dict[str, float]]) -> None:
    """Print the table of one workload."""
    rows: list[list[Cell]] = [[name, *(each.get(key) for key in COLUMNS)] for name, each in figures.items()]
    sampled = f"; of later turns one conversation in {work.one_in}" if work.one_in > 1 else ""
    print_table(work.name + sampled, ["tree", *COLUMNS.values()], rows)


def run(*, quick: bool, rounds: int | None) -> dict[str, object]:
    """Measure, print and return all figures. `rounds`: 3 by default, 1 if `quick`."""
    if quick:
        works = [Workload(8000, 3, 4, one_in=20)]
    else:
        works = [*(Workload(2000, 8, size) for size in (1, 4, 8)), Workload(8000, 3, 4)]
    results: dict[str, object] = {}
    for work in works:
        figures = measure_side_by_side(work, rounds or (1 if quick else 3))
        show(work, figures)
        results[work.name] = figures
    return results
