"""`GET /prefixes`: shared prefixes of prompts: their use, their users, and the workers that cache them."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from msgspec import Meta
from pydantic import BaseModel, ConfigDict

from radixway.api.admin_access import AdminAccess
from radixway.api.openapi import query_parameters
from radixway.api.prefixes.prefix_tree import PromptBlocks, SharedPrefix, build_prefix_tree
from radixway.api.request_log import RequestSummary
from radixway.core.http import LazyRouter, decode_query
from radixway.core.pipeline import WorkerFailedError
from radixway.core.telemetry import Journal, JournalStore
from radixway.routing import PairChoice, Selector, Worker, WorkerChoice, WorkerRegistry
from radixway.routing.transports import HttpTransport
from radixway.trajectories import TrieRegistry

Source = Literal["requests", "caches", "trajectories"]
Kind = Literal["model", "worker", "prefix"]
Tier = Literal["device", "host", "disk", "assumed"]


class _Reply(BaseModel):
    """Fields with defaults are in every reply, and OpenAPI says so."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)


class PrefixUser(BaseModel):
    """A user of a prefix, and how often it uses it."""

    name: str
    requests: int


class PrefixHolder(BaseModel):
    """A worker with a prefix in its cache: by its KV events, or `assumed` from the gateway's choices."""

    name: str
    tier: Tier


class PrefixInfo(_Reply):
    """A node: so many tokens that go on from the prefix above."""

    id: int
    parent: int | None
    """Comes before it; null at the top."""
    kind: Kind
    name: str
    """Name of a model or worker; of a prefix the opaque name of its last block."""
    begin: int = 0
    """Tokens before it."""
    tokens: int = 0
    heat: int
    """Requests that came this way; of trajectories the number of the latest use, counted from the first."""
    last_used: float | None = None
    """Seconds since the epoch."""
    in_use: bool | None = None
    """Whether a running request uses it, if known."""
    tenants: list[PrefixUser] = []
    """Its most frequent tenants; at most ten, as for the next two fields."""
    workers: list[PrefixUser] = []
    held_by: list[PrefixHolder] = []
    hidden: int = 0
    """Prefixes right below it that are not listed, and the tokens on them."""
    hidden_tokens: int = 0
    text: str | None = None
    """The beginning of its text, only if `console.show_prompts` allows and the text is known."""


class PrefixTree(_Reply):
    """A tree."""

    source: Source
    prefixes: list[PrefixInfo]
    """Each after the one above it."""
    requests: int | None = None
    """Requests in the tree."""
    prompt_tokens: int | None = None
    """Tokens of their prompts."""
    silent: list[str] = []
    """Workers that do not tell what they cache."""
    shows_text: bool


_MAX_NAMES = 10
_MAX_TEXT_CHARS = 160
"""Characters of a text that are shown."""
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
    """The trees of one gateway. Belongs to its event loop; long work runs in a thread."""

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

    async def request_prefixes(self, max_nodes: int, levels: int, latest: int) -> PrefixTree:
        """Build the tree of the prefixes that the `latest` requests shared."""
        journals = self._book.latest_journals(latest)
        # In threads: of ten thousand long prompts it takes a while.
        chains = await asyncio.to_thread(_prompt_blocks, journals)
        nodes = await asyncio.to_thread(build_prefix_tree, chains, max_nodes, levels)
        slots = {worker.slot: worker.name for worker in self._registry if worker.slot >= 0}
        return PrefixTree(
            source="requests",
            prefixes=[self._prefix_info(number, node, slots) for number, node in enumerate(nodes)],
            requests=len(chains),
            prompt_tokens=sum(len(chain.blocks) * chain.block_tokens for chain in chains),
            shows_text=self._shows_text,
        )

    async def cache_prefixes(self, max_nodes: int, levels: int) -> PrefixTree:
        """Build the tree of the radix caches that engines report: `max_nodes` nodes, `levels` deep."""
        workers = sorted(self._registry, key=lambda worker: worker.name)
        share = max(1, max_nodes // max(1, len(workers)))
        answers = await asyncio.gather(*(self._ask_worker(worker, share, levels) for worker in workers))
        tree = PrefixTree(source="caches", prefixes=[], shows_text=self._shows_text)
        for worker, cached in zip(workers, answers, strict=True):
            if cached is None:
                tree.silent.append(worker.name)
            elif len(tree.prefixes) < max_nodes:
                _add_cache(tree.prefixes, worker.name, cached[: max_nodes - len(tree.prefixes)])
        return tree

    def trajectory_prefixes(self, max_nodes: int, levels: int) -> PrefixTree:
        """Build the tree of recorded trajectories: `max_nodes` nodes; the latest used are the hottest."""
        tries = {} if self._tries is None else self._tries.stores_by_model()
        prefixes: list[PrefixInfo] = []
        for name, trie in tries.items():
            top = len(prefixes)
            if top >= max_nodes:
                break
            shown = trie.outline(max_nodes - top - 1, levels)
            heat = max((entry.node.payload.clock for entry in shown), default=0)
            prefixes.append(PrefixInfo(id=top, parent=None, kind="model", name=name, heat=heat))
            for number, entry in enumerate(shown, top + 1):
                run = entry.node.payload
                text = run.text.decode(errors="replace")[:_MAX_TEXT_CHARS] if self._shows_text else None
                prefixes.append(
                    PrefixInfo(
                        id=number,
                        parent=top if entry.parent is None else top + 1 + entry.parent,
                        kind="prefix",
                        name="",
                        begin=entry.node.start,
                        tokens=entry.node.size,
                        heat=run.clock,
                        in_use=entry.node.pins > 0,
                        hidden=entry.hidden,
                        hidden_tokens=entry.hidden_strides,
                        text=text,
                    )
                )
        return PrefixTree(source="trajectories", prefixes=prefixes, shows_text=self._shows_text)

    def _prefix_info(self, number: int, node: SharedPrefix, slots: dict[int, str]) -> PrefixInfo:
        holders = {} if node.block is None else self._selector.index.find_holders(node.block)
        held_by = [
            PrefixHolder(name=slots[slot], tier="assumed" if tier is None else _TIERS[tier])
            for slot, tier in sorted(holders.items())
            if slot in slots
        ]
        return PrefixInfo(
            id=number,
            parent=node.parent,
            kind="model" if node.block is None else "prefix",
            name=node.model if node.block is None else f"{node.block & (2**64 - 1):016x}",
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

    async def _ask_worker(self, worker: Worker, max_nodes: int, levels: int) -> list[_CachedPrefix] | None:
        path = f"/cached_prefixes?most={max_nodes}&levels={levels}"
        try:
            status, _, raw = await self._transport.call_worker(
                worker, "GET", path, b"", timeout_s=_WORKER_TIMEOUT_S
            )
            if status != 200:
                return None
            cached = _read_cache(raw).prefixes
        except (WorkerFailedError, TimeoutError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if any(prefix.parent is not None and prefix.parent >= at for at, prefix in enumerate(cached)):
            return None
        return cached


_TIERS: tuple[Any, ...] = ("device", "host", "disk")


def _prompt_blocks(journals: Iterable[Journal]) -> list[PromptBlocks]:
    chains = []
    for journal in journals:
        choice: WorkerChoice | None = None
        model = None
        for _, _, detail in journal.entries:
            if isinstance(detail, WorkerChoice):
                choice = detail
            elif isinstance(detail, PairChoice):
                choice = detail.answers
            elif isinstance(detail, RequestSummary):
                model = detail.model
        if choice is not None and (blocks := choice.request.all_blocks()):
            routing_request = choice.request
            chains.append(
                PromptBlocks(
                    model or routing_request.model or "",
                    tuple(blocks),
                    routing_request.block_tokens,
                    journal.tenant or "",
                    choice.worker.name,
                    journal.began_at,
                )
            )
    return chains


def _add_cache(prefixes: list[PrefixInfo], worker: str, cached: list[_CachedPrefix]) -> None:
    top = len(prefixes)
    heat = sum(prefix.hits for prefix in cached if prefix.parent is None)
    prefixes.append(PrefixInfo(id=top, parent=None, kind="worker", name=worker, heat=heat))
    for number, prefix in enumerate(cached, top + 1):
        prefixes.append(
            PrefixInfo(
                id=number,
                parent=top if prefix.parent is None else top + 1 + prefix.parent,
                kind="prefix",
                name="",
                begin=prefix.begin,
                tokens=prefix.tokens,
                heat=prefix.hits,
                in_use=prefix.in_use,
                held_by=[PrefixHolder(name=worker, tier="device")],
                hidden=prefix.hidden,
                hidden_tokens=prefix.hidden_tokens,
            )
        )


def _prefix_users(counted: Counter[str]) -> list[PrefixUser]:
    return [PrefixUser(name=name, requests=many) for name, many in counted.most_common(_MAX_NAMES)]


class _PrefixQuery(msgspec.Struct, forbid_unknown_fields=True):
    source: Annotated[
        Source,
        Meta(description="what the latest requests had in common, what engines cache, or what is recorded"),
    ] = "requests"
    most: Annotated[int, Meta(ge=1, le=1000, description="nodes, the hottest ones")] = 200
    levels: Annotated[int, Meta(ge=1, le=32, description="of the tree")] = 8
    latest: Annotated[
        int, Meta(ge=1, le=10_000, description="requests that are looked at, where they are the source")
    ] = 2000


def prefix_routes(sources: PrefixSources, access: AdminAccess) -> APIRouter:
    """Build `/prefixes` for administrators."""
    router = LazyRouter(tags=["gateway"], dependencies=[Depends(access)])

    @router.get("/prefixes", response_model=PrefixTree, openapi_extra=query_parameters(_PrefixQuery))
    async def prefixes(request: Request) -> Response:
        """A tree of what is shared, in its hottest nodes: lengths, who asks for them, who holds them."""
        query = decode_query(dict(request.query_params), _PrefixQuery)
        match query.source:
            case "caches":
                tree = await sources.cache_prefixes(query.most, query.levels)
            case "trajectories":
                tree = sources.trajectory_prefixes(query.most, query.levels)
            case "requests":
                tree = await sources.request_prefixes(query.most, query.levels, query.latest)
        return Response(tree.model_dump_json(), media_type="application/json")

    return router
