"""The middleware: gives a request the tools it wants, or takes those away that it does not."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from radixway.core.config.semantic import ClassicTools
from radixway.core.pipeline import Endpoint, Next, Reply, Request
from radixway.semantics.decisions.detection import RequestMeaning
from radixway.semantics.decisions.snapshot import Encode, SemanticSnapshot
from radixway.semantics.signals.question import read_question
from radixway.semantics.tools.tool_definition import (
    ClientToolList,
    called_tools,
    definitions_size_bytes,
    may_choose_tools,
    read_client_tools,
)
from radixway.semantics.tools.tool_selection import (
    ToolLimits,
    ToolOffer,
    ToolSelectionResult,
    select_tools,
    tool_limits,
)

if TYPE_CHECKING:
    from radixway.semantics.tools.client_tools import ClientToolIndexes
    from radixway.semantics.tools.tool_index import ToolIndex

log = logging.getLogger(__name__)

_WITHOUT_TOOLS: dict[str, Any] = {"tools": UNSET, "tool_choice": UNSET, "parallel_tool_calls": UNSET}
"""Workers refuse the other two without tools."""


class _NotSelectedError(Exception):
    """Nothing could be selected; the text is the outcome's name."""


class ToolSelection:
    """A `pipeline.Middleware` for chat completions, whichever model they are for; stands behind `Semantic`.

    Tools are chosen by the last user message, and not by what was called and found since then: so they are
    the same in every step of an agent's loop, and workers find the prompt's beginning, where tools stand, in
    their caches.
    """

    def __init__(
        self,
        snapshot: Callable[[], SemanticSnapshot],
        encode: Encode | None,
        lists: ClientToolIndexes | None,
    ) -> None:
        """`encode` and `lists` None: nothing can be selected."""
        self._snapshot = snapshot
        self._encode = encode
        self._lists = lists

    def applies_to(self, endpoint: Endpoint) -> bool:
        """Return whether the endpoint's bodies may list tools."""
        return endpoint.takes_tools

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        """The answer of what comes next. A part that fails leaves the client's tools as they are."""
        meaning = request.semantics
        snapshot = meaning.snapshot if isinstance(meaning, RequestMeaning) else self._snapshot()
        section = snapshot.section.tools
        if (
            section is not None
            and section.enabled
            and b'"tool' in request.raw
            and may_choose_tools(request.body)
        ):
            await self._offer_tools(request, section, snapshot.tools)
        return await call_next(request)

    async def _offer_tools(self, request: Request, section: ClassicTools, database: ToolIndex | None) -> None:
        began = perf_counter()
        offer: ToolOffer | None = None
        client = section.client_tools
        if not request.body.get("tools"):
            if database is not None:
                offer = await self._add_database_tools(request, database, section)
        elif client.enabled and not self._is_too_long(request.body["tools"]):
            own = read_client_tools(request.raw, request.body)
            if own is not None and len(own.raw) >= client.at_least:
                offer = await self._reduce_client_tools(request, own, section)
        if offer is not None:
            offer.took_s = perf_counter() - began
            request.journal.add("tools", offer)

    def _is_too_long(self, tools: Any) -> bool:
        """Return whether the list is too long to read."""
        return isinstance(tools, list) and self._lists is not None and len(tools) > self._lists.max_tools

    async def _add_database_tools(
        self, request: Request, database: ToolIndex, section: ClassicTools
    ) -> ToolOffer:
        offer = ToolOffer("database", of=len(database), bytes_before=database.size_bytes)
        try:
            offer.selection = await self._select_tools(request, database, tool_limits(section))
        except _NotSelectedError as why:
            offer.outcome = str(why)
            request.edit(**_WITHOUT_TOOLS)
            return offer
        tools = [database.tools[number] for number in offer.selection.numbers]
        offer.names = [tool.name for tool in tools]
        _apply_offer(request, offer, [tool.definition for tool in tools], section)
        return offer

    async def _reduce_client_tools(
        self, request: Request, own: ClientToolList, section: ClassicTools
    ) -> ToolOffer:
        """Keep the client's best tools in its order and spelling, and those without a name."""
        before = definitions_size_bytes(own.raw)
        offer = ToolOffer("client", of=len(own.raw), bytes_before=before, bytes_after=before)
        try:
            index = await self._client_index(own, section.client_tools.wait_s)
            limits = tool_limits(section, section.client_tools.top_k)
            offer.selection = await self._select_tools(request, index, limits)
        except _NotSelectedError as why:
            offer.outcome = str(why)
            return offer
        wanted = {own.places[number] for number in offer.selection.numbers}
        left_out = set(own.places) - wanted
        tools = [item for place, item in enumerate(own.raw) if place not in left_out]
        offer.names = [
            tool.name for tool, place in zip(own.tools, own.places, strict=True) if place in wanted
        ]
        _apply_offer(request, offer, tools, section)
        return offer

    async def _client_index(self, own: ClientToolList, wait_s: float) -> ToolIndex:
        if self._lists is None:
            raise _NotSelectedError("failed")
        try:
            index = await self._lists.find_index(own.tools, wait_s)
        except Exception as error:  # noqa: BLE001 - a request goes on with the tools it has
            raise _failure_outcome(error) from None
        if index is None:
            raise _NotSelectedError("unread")
        return index

    async def _select_tools(
        self, request: Request, index: ToolIndex, limits: ToolLimits
    ) -> ToolSelectionResult:
        question = read_question(request.body).text
        if not question.strip():
            raise _NotSelectedError("no_text")
        if self._encode is None:
            raise _NotSelectedError("failed")
        try:
            vector = (await self._encode(question)).vector
        except Exception as error:  # noqa: BLE001 - likewise
            raise _failure_outcome(error) from None
        return select_tools(index, index.score_tools(vector, question), limits, called_tools(request.body))


def _apply_offer(
    request: Request, offer: ToolOffer, definitions: list[msgspec.Raw], section: ClassicTools
) -> None:
    if definitions:
        offer.bytes_after = definitions_size_bytes(definitions)
        request.edit(tools=definitions)
        return
    offer.outcome = "none_good_enough"
    if section.fallback_to_empty:
        offer.bytes_after = 0
        request.edit(**_WITHOUT_TOOLS)


def _failure_outcome(error: Exception) -> _NotSelectedError:
    log.warning("semantic: tools are not selected: %s", type(error).__name__)
    return _NotSelectedError("failed")
