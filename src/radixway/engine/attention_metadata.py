"""The keys and values that one step's tokens attend to, worked out once for all layers.

The tokens of a step stand in one row after another; every request owns a run of rows:

    rows   [ a | b | c | dddddddddddd | eeeeeee ]      a, b, c compute one token each, d and e a chunk
             singles     chunks

A single token sees all of its request's KV, so requests of similar length go through one call, padded to the
longest with page 0. That takes a copy; a request with much KV on neighbouring pages is a chunk of one token
instead, read where it lies. A chunk sees what was computed before it, and itself causally. Pages that several
requests have in common are taken out of both: all their rows attend to them in one call, and the parts merge.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from radixway.engine.kv_store import PageIds

PageTable = np.ndarray[tuple[int, ...], np.dtype[np.int32]]
"""A request's page ids, from its first token on."""


class SharedRun(NamedTuple):
    """Pages [start, stop) of every member: the same pages for all of them."""

    members: list[int]
    start: int
    stop: int


def find_shared_runs(tables: Sequence[PageTable], worth: int) -> list[SharedRun]:
    """The runs of pages that two or more of `tables` begin with, worked out level by level as a tree:

        a  1 2 3 4 5            a, b, c   share 1 2
        b  1 2 3 4 6 7          a, b      share 3 4 after it
        c  1 2 8

    Every page has one sequence of tokens before it, so equal pages stand at equal places. The runs of one
    member follow each other from its first page on without a gap. A run is worth a call of its own from
    `worth` pages on that need not be read, over all its members; a lesser one is left to the runs below it.
    """
    runs = []
    todo = [(list(range(len(tables))), 0, 0)]
    while todo:
        members, start, known = todo.pop()
        common = _common_pages(tables, members, known)
        if (len(members) - 1) * (common - start) >= max(worth, 1):
            runs.append(SharedRun(members, start, common))
            start = common
        below: dict[int, list[int]] = {}
        for i in members:
            if len(tables[i]) > common:
                below.setdefault(int(tables[i][common]), []).append(i)
        todo += [(group, start, common) for group in below.values() if len(group) > 1]
    return runs


def _common_pages(tables: Sequence[PageTable], members: list[int], known: int) -> int:
    """Count the pages that all members begin with; the first `known` are known to be equal."""
    width = min((len(tables[i]) for i in members), default=0)
    if width <= known or len({int(tables[i][known]) for i in members}) > 1:
        return known
    first = tables[members[0]][known:width]
    for i in members[1:]:
        differing = np.flatnonzero(tables[i][known : known + len(first)] != first)
        if len(differing):
            first = first[: differing[0]]
    return known + len(first)


PADDING_PAGES = 32
"""A group of singles may pad this many pages for each member it takes in: about what a call costs."""

SHARED_TOKENS = 512
"""Tokens that must be read once less, over all its members, for a call of its own on a shared run to pay."""

IN_PLACE_TOKENS = 192
"""Tokens from which, on CPU, a separate call is faster than copying them for a common one."""


class QuerySpan(NamedTuple):
    """A request's part of a step: its tokens [before, before + new), whose KV goes to `pages`."""

    before: int
    new: int
    pages: "array[int]"
    """The request's pages from its first token on."""


@dataclass(slots=True)
class DecodeGroup:
    """Rows [start, stop): one new token for each of several requests of similar length."""

    start: int
    stop: int
    pages: Tensor
    """[n * P]: P pages for each of the n requests after what they share, shorter ones filled with page 0."""
    mask: Tensor | None
    """[n, P * page_size], 0 where there is a token and -inf beyond; None if all fill their pages."""


@dataclass(slots=True)
class PrefillChunk:
    """Rows [start, stop): new tokens of one request, after `before` earlier ones of its own."""

    start: int
    stop: int
    before: int
    pages: PageIds


@dataclass(slots=True)
class SharedPrefixGroup:
    """Rows of several requests, all of which see all tokens of the same pages."""

    rows: Tensor
    """[n] int64."""
    pages: PageIds


@dataclass(slots=True)
class AttentionMetadata:
    """Everything attention needs to know about a step, the same for all layers."""

    positions: Tensor
    """[T] int64: each row's place in its own request."""
    slots: Tensor
    """[T] int64: where in the store each row's key and value go."""
    started_pages: Tensor | None
    """The pages that this step begins and does not fill: what others left in their rest must be numbers."""
    decode_groups: list[DecodeGroup]
    prefill_chunks: list[PrefillChunk]
    shared_groups: list[SharedPrefixGroup]
    """Groups from the beginning of their requests on; a row may be in several."""

    order: list[int]
    """Index of the span that owns the first run of rows, the second, and so on."""

    @classmethod
    def build_metadata(
        cls,
        spans: Sequence[QuerySpan],
        page_size: int,
        dtype: torch.dtype,
        device: torch.device,
        *,
        share: bool = True,
    ) -> "AttentionMetadata":
        """The plan of a step over `spans`. `share`: attend once to what several of them have in common."""
        tables = [np.frombuffer(span.pages, dtype=np.int32) for span in spans]
        past = [table[: span.before // page_size] for table, span in zip(tables, spans, strict=True)]
        runs = find_shared_runs(past, -(-SHARED_TOKENS // page_size)) if share and len(spans) > 1 else []
        skipped = [0] * len(spans)
        for run in runs:
            for i in run.members:
                skipped[i] = run.stop
        own = [
            _to_page_ids(table[skip : -(-(span.before + span.new) // page_size)], device)
            for span, table, skip in zip(spans, tables, skipped, strict=True)
        ]
        before = [span.before - skip * page_size for span, skip in zip(spans, skipped, strict=True)]
        apart = [
            span.new > 1 or (device.type == "cpu" and isinstance(ids, slice) and tokens >= IN_PLACE_TOKENS)
            for span, ids, tokens in zip(spans, own, before, strict=True)
        ]
        order = sorted(range(len(spans)), key=lambda i: (apart[i], before[i]))
        lengths = np.array([spans[i].new for i in order])
        stops = np.cumsum(lengths)
        starts = stops - lengths
        positions = np.arange(stops[-1]) + np.repeat([spans[i].before for i in order] - starts, lengths)
        slots = np.empty_like(positions)
        chunks, begun = [], []
        for start, i in zip(starts, order, strict=True):
            span, pages = spans[i], tables[i]
            rows = slice(start, start + span.new)
            slots[rows] = pages[positions[rows] // page_size].astype(np.int64) * page_size
            full, rest = divmod(span.before + span.new, page_size)
            if rest and full * page_size >= span.before:
                begun.append(span.pages[full])
            if apart[i]:
                chunks.append(PrefillChunk(rows.start, rows.stop, before[i], own[i]))
        slots += positions % page_size
        singles = order[: len(spans) - len(chunks)]
        tails = [DecodeTail(tables[i][skipped[i] :], before[i] + 1) for i in singles]
        where = dict(zip(order, zip(starts, stops, strict=True), strict=True))
        return cls(
            positions=_to_tensor(positions, device),
            slots=_to_tensor(slots, device),
            started_pages=torch.tensor(begun, device=device) if begun else None,
            decode_groups=[
                _make_decode_group(tails[start:stop], start, page_size, dtype, device)
                for start, stop in _group_decodes([-(-tail.tokens // page_size) for tail in tails])
            ],
            prefill_chunks=chunks,
            shared_groups=[
                SharedPrefixGroup(
                    _to_tensor(np.concatenate([np.arange(*where[i]) for i in run.members]), device),
                    _to_page_ids(past[run.members[0]][run.start : run.stop], device),
                )
                for run in runs
            ],
            order=order,
        )


class DecodeTail(NamedTuple):
    """The KV that a single token attends to alone: the first `tokens` of `pages`."""

    pages: PageTable
    tokens: int


def _group_decodes(pages: Sequence[int]) -> list[tuple[int, int]]:
    """Yield ranges of requests, ascending by their number of `pages`, that share a call."""
    groups = []
    start = 0
    for at in range(1, len(pages) + 1):
        if at == len(pages) or (at - start) * (pages[at] - pages[at - 1]) > PADDING_PAGES:
            groups.append((start, at))
            start = at
    return groups


def _make_decode_group(
    tails: Sequence[DecodeTail], start: int, page_size: int, dtype: torch.dtype, device: torch.device
) -> DecodeGroup:
    width = -(-tails[-1].tokens // page_size)
    table = np.zeros((len(tails), width), dtype=np.int64)
    for row, (pages, tokens) in zip(table, tails, strict=True):
        num_pages = -(-tokens // page_size)
        row[:num_pages] = pages[:num_pages]
    beyond = np.arange(width * page_size) >= np.array([tail.tokens for tail in tails])[:, None]
    mask = None
    if beyond.any():
        mask = _to_tensor(np.where(beyond, -np.inf, 0.0), device).to(dtype)
    return DecodeGroup(start, start + len(tails), _to_tensor(table.reshape(-1), device), mask)


def _to_page_ids(pages: PageTable, device: torch.device) -> PageIds:
    if (pages[1:] - pages[:-1] == 1).all():
        return slice(int(pages[0]), int(pages[-1]) + 1)
    return _to_tensor(pages, device)


def _to_tensor(values: "np.ndarray[tuple[int, ...], np.dtype[np.generic]]", device: torch.device) -> Tensor:
    wide = values.astype(np.float32 if values.dtype.kind == "f" else np.int64)
    return torch.from_numpy(wide).to(device)
