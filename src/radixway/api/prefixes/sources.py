"""Sources of prefix trees: journals and the block index, engines' caches, recorded trajectories."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from radixway.api.prefixes.prefix_tree import PromptBlocks, SharedPrefix, build_prefix_tree
from radixway.api.prefixes.shapes import Kind, PrefixHolder, PrefixInfo, PrefixTree, PrefixUser
from radixway.api.request_log import RequestSummary
from radixway.core.pipeline import WorkerFailedError
from radixway.core.telemetry import Journal, JournalStore
from radixway.routing import PairChoice, Selector, Worker, WorkerChoice, WorkerRegistry
from radixway.routing.transports import HttpTransport
from radixway.trajectories import TrieRegistry

_MAX_NAMES = 10
_MAX_TEXT_CHARS = 160
"""Characters of a text that is shown."""
_WORKER_TIMEOUT_S = 3.0

_Count = Annotated[int, Meta(ge=0, le=2**53)]


class _CachedPrefix(msgspec.Struct):
    parent: _Count | None
    begin: _Count
    tokens: _Count
    hits: _Count
    in_use: bool
    hidden: _Count
    hidden_tokens: _Count


class _WorkerCache(msgspec.Struct):
    prefixes: Annotated[list[_CachedPrefix], Meta(max_length=2000)]


_read_cache = msgspec.json.Decoder(_WorkerCache).decode


class PrefixSources:
    """The trees of one gateway. Belongs to its event loop; what takes long is done in a thread."""

    def __init__(
        self,
        book: JournalStore,
        registry: WorkerRegistry,
        selector: Selector,
        transport: HttpTransport,
        tries: TrieRegistry | None,
        *,
        shows_text: bool,
    ) -> None:
        self._book = book
        self._registry = registry
        self._selector = selector
        self._transport = transport
        self._tries = tries
        self._shows_text = shows_text

    async def request_prefixes(self, most: int, levels: int, latest: int) -> PrefixTree:
        """Build the tree of the prefixes that the `latest` requests shared."""
        chains, nodes = await asyncio.to_thread(_build_tree, self._book.latest_journals(latest), most, levels)
        slots = {worker.slot: worker.name for worker in self._registry if worker.slot >= 0}
        return PrefixTree(
            source="requests",
            prefixes=[self._prefix_info(number, node, slots) for number, node in enumerate(nodes)],
            requests=len(chains),
            prompt_tokens=sum(len(chain.blocks) * chain.block_tokens for chain in chains),
            silent=[],
            shows_text=self._shows_text,
        )

    async def cache_prefixes(self, most: int, levels: int) -> PrefixTree:
        """Build the tree of the radix caches of engines, as they report them: `most` nodes, `levels` deep."""
        workers = sorted(self._registry, key=lambda worker: worker.name)
        share = max(1, most // max(1, len(workers)))
        told = await asyncio.gather(*(self._ask_worker(worker, share, levels) for worker in workers))
        prefixes: list[PrefixInfo] = []
        for worker, cached in zip(workers, told, strict=True):
            if cached is not None and len(prefixes) < most:
                _add_cache(prefixes, worker.name, cached[: most - len(prefixes)])
        silent = [worker.name for worker, cached in zip(workers, told, strict=True) if cached is None]
        return PrefixTree(
            source="caches",
            prefixes=prefixes,
            requests=None,
            prompt_tokens=None,
            silent=silent,
            shows_text=self._shows_text,
        )

    def trajectory_prefixes(self, most: int, levels: int) -> PrefixTree:
        """Build the tree of recorded trajectories, at most `most` nodes; the latest used are the hottest."""
        tries = {} if self._tries is None else self._tries.stores_by_model()
        prefixes: list[PrefixInfo] = []
        for name, trie in tries.items():
            top = len(prefixes)
            if top >= most:
                break
            shown = trie.outline(most - top - 1, levels)
            heat = max((each.node.payload.clock for each in shown), default=0)
            prefixes.append(_empty_prefix_info(top, None, "model", name, heat=heat))
            for number, each in enumerate(shown, top + 1):
                run = each.node.payload
                text = run.text.decode(errors="replace")[:_MAX_TEXT_CHARS] if self._shows_text else None
                prefixes.append(
                    _empty_prefix_info(
                        number,
                        top if each.parent is None else top + 1 + each.parent,
                        "prefix",
                        "",
                        begin=each.node.start,
                        tokens=each.node.size,
                        heat=run.clock,
                        in_use=each.node.pins > 0,
                        hidden=each.hidden,
                        hidden_tokens=each.hidden_strides,
                        text=text,
                    )
                )
        return PrefixTree(
            source="trajectories",
            prefixes=prefixes,
            requests=None,
            prompt_tokens=None,
            silent=[],
            shows_text=self._shows_text,
        )

    def _prefix_info(self, number: int, node: SharedPrefix, slots: dict[int, str]) -> PrefixInfo:
        holders = {} if node.block is None else self._selector.index.find_holders(node.block)
        held_by = [
            PrefixHolder(name=slots[slot], tier="assumed" if tier is None else _TIERS[tier])
            for slot, tier in sorted(holders.items())
            if slot in slots
        ]
        return _empty_prefix_info(
            number,
            node.parent,
            "model" if node.block is None else "prefix",
            node.model if node.block is None else f"{node.block & (2**64 - 1):016x}",
            begin=node.start * (node.tokens // max(1, node.end - node.start)),
            tokens=node.tokens,
            heat=node.requests,
            last_used=node.last_used,
            tenants=_prefix_users(node.tenants),
            workers=_prefix_users(node.workers),
            held_by=held_by[:_MAX_NAMES],
            hidden=node.hidden,
            hidden_tokens=node.hidden_tokens,
        )

    async def _ask_worker(self, worker: Worker, most: int, levels: int) -> list[_CachedPrefix] | None:
        """What a worker says that it caches; None where it says nothing."""
        path = f"/cached_prefixes?most={most}&levels={levels}"
        try:
            status, _, raw = await self._transport.call_worker(
                worker, "GET", path, b"", timeout_s=_WORKER_TIMEOUT_S
            )
            if status != 200:
                return None
            cached = _read_cache(raw).prefixes
        except (WorkerFailedError, TimeoutError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if any(each.parent is not None and each.parent >= at for at, each in enumerate(cached)):
            return None
        return cached


_TIERS: tuple[Any, ...] = ("device", "host", "disk")


def _build_tree(
    journals: Iterable[Journal], most: int, levels: int
) -> tuple[list[PromptBlocks], list[SharedPrefix]]:
    """In a thread: of ten thousand long prompts it takes a while."""
    chains = _prompt_blocks(journals)
    return chains, build_prefix_tree(chains, most, levels)


def _prompt_blocks(journals: Iterable[Journal]) -> list[PromptBlocks]:
    """Those whose prompts routing has read."""
    chains = []
    for journal in journals:
        choice: WorkerChoice | None = None
        model = None
        for _, _, said in journal.entries:
            if isinstance(said, WorkerChoice):
                choice = said
            elif isinstance(said, PairChoice):
                choice = said.answers
            elif isinstance(said, RequestSummary):
                model = said.model
        if choice is not None and choice.request.blocks:
            asked = choice.request
            chains.append(
                PromptBlocks(
                    model or asked.model or "",
                    tuple(asked.blocks),
                    asked.block_tokens,
                    journal.tenant or "",
                    choice.worker.name,
                    journal.began_at,
                )
            )
    return chains


def _add_cache(prefixes: list[PrefixInfo], worker: str, cached: list[_CachedPrefix]) -> None:
    top = len(prefixes)
    heat = sum(each.hits for each in cached if each.parent is None)
    prefixes.append(_empty_prefix_info(top, None, "worker", worker, heat=heat))
    for number, each in enumerate(cached, top + 1):
        prefixes.append(
            _empty_prefix_info(
                number,
                top if each.parent is None else top + 1 + each.parent,
                "prefix",
                "",
                begin=each.begin,
                tokens=each.tokens,
                heat=each.hits,
                in_use=each.in_use,
                held_by=[PrefixHolder(name=worker, tier="device")],
                hidden=each.hidden,
                hidden_tokens=each.hidden_tokens,
            )
        )


def _empty_prefix_info(number: int, parent: int | None, kind: Kind, name: str, **known: Any) -> PrefixInfo:
    unknown: dict[str, Any] = {
        "begin": 0,
        "tokens": 0,
        "last_used": None,
        "in_use": None,
        "tenants": [],
        "workers": [],
        "held_by": [],
        "hidden": 0,
        "hidden_tokens": 0,
        "text": None,
    }
    return PrefixInfo(id=number, parent=parent, kind=kind, name=name, **(unknown | known))


def _prefix_users(counted: Counter[str]) -> list[PrefixUser]:
    return [PrefixUser(name=name, requests=many) for name, many in counted.most_common(_MAX_NAMES)]
