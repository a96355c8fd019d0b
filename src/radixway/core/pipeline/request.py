"""A request on its way through the gateway, whatever protocol it came in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import msgspec

from radixway.core.pipeline.endpoints import Endpoint
from radixway.core.pipeline.errors import BadRequest
from radixway.core.pipeline.interfaces import GuardClearance
from radixway.core.pipeline.reply import Chunks
from radixway.core.pipeline.tenant_policy import TenantPolicy
from radixway.core.telemetry import Journal

T = TypeVar("T")

ANY_MODEL = "auto"
"""The model name with which a client leaves the choice to the gateway."""

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


@dataclass(slots=True, eq=False)
class Request:
    """What was understood of a request at its endpoint, and what the road adds to it.

    The body travels as the bytes that came. A middleware that edits it changes the fields it names; all
    others, unknown to us or not, reach the worker in their own spelling.
    """

    id: str
    endpoint: Endpoint
    """The endpoint that it came to, and what middlewares may expect of it."""
    path: str
    """Path and query at the worker."""
    journal: Journal
    raw: bytes = b""
    """The body to send."""
    model: str | None = None
    """The model asked for; None where the protocol or the client names none."""
    stream: bool = False
    answers: int | None = 1
    """How many answers the body asks for; None: several, and it is not known how many."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """The client's headers that travel on to the worker, names in lower case; none that describe the body or
    the connection, which the transport writes itself."""
    priority: int = 0
    """As the client gave it; the queue says which sense it has and how far it reaches."""
    ttft_s: float | None = None
    """The client's objective for its first token."""
    max_staleness: int | None = None
    """How many versions a worker's weights may be behind the fleet's."""
    min_weight_version: str | None = None
    """The oldest version of weights that will do."""
    rids: tuple[str, ...] = ()
    """What the body calls the request, beside `id`."""
    workers: list[str] = field(default_factory=list)
    """Names of the workers that have it in hand now."""
    pinned: str | None = None
    """Name or URL of the only worker that may answer, by the word of a trusted hop."""
    forwarder: object | None = None
    """Who brings it to its worker in place of the gateway's own connections; for the dispatch alone."""
    preference: str | None = None
    """What the client's header says matters in the choice of a model: `best`, `fast` or `cheap`."""
    fallback: str | None = None
    """The model that answers in place of the one asked for."""
    tried: list[str] = field(default_factory=list)
    """Names of the workers that failed this request already."""
    attempted_workers: list[str] = field(default_factory=list)
    """Names of the workers it was carried to, in that order."""
    open_streams: list[Chunks] = field(default_factory=list)
    """Streams opened for this request. Whoever made the request closes them, whatever became of the reply."""
    tenant: str = "default"
    """Whose request it is; what one tenant was answered, another never sees."""
    tenant_policy: TenantPolicy | None = None
    """What follows from that; None where no tenants are configured."""
    user: str | None = None
    """Who of the tenant asks, where the gateway knows it better than the body."""
    claimed_user: str | None = None
    """Who asks by the body's own word."""
    cache_control: str | None = None
    """What the client says of kept answers: `cache-control` and `x-vsr-cache-control`."""
    uncacheable: str | None = None
    """Why neither this request nor its answer may be kept: a short reason, set by whoever found personal data
    in them or blocked them."""
    category: str | None = None
    """What the request is about, where the semantic layer has judged it by now."""
    decision: str | None = None
    """The rule that decided about it, where one did."""
    clearance: GuardClearance | None = None
    """What the guard says of models that may be shown it; None: nothing of theirs was found in it."""
    cache_threshold: float | None = None
    """Least cosine at which a kept answer will do, where the category has one of its own."""
    cache_status: Literal["miss", "bypass"] | None = None
    """What a cache of answers that it has passed made of it; None where there is no cache."""
    meaning: object | None = None
    """What the semantic layer found of it before its turn to decide came; for itself alone."""
    is_dry_run: bool = False
    """Nobody asks: it is only to be seen what would become of it. Decisions on it are not counted, and what
    the guard finds is no incident."""
    metrics_model: str = "unknown"
    """The model as metrics may name it: as asked for, once it is known that somebody serves it."""
    resolved_model: str | None = None
    """The model that its worker was asked for, by name; None until then, or where that is not known."""
    prompt_tokens: int | None = None
    """How long its prompt is, where routing had it tokenized."""
    inside_s: float = 0.0
    """What the step of the road that is at work now has spent in those after it."""
    _body: dict[str, Any] | None = None

    @property
    def surface(self) -> str:
        """The endpoint's name: `openai.chat`, `openai.completions`, `generate` …"""
        return self.endpoint.name

    @property
    def cache_namespace(self) -> str:
        """Whose kept answers it may be given."""
        return (
            self.tenant if self.tenant_policy is None else self.tenant_policy.cache_namespace or self.tenant
        )

    @property
    def user_or_claimed(self) -> str | None:
        """Who asks, as far as anybody says."""
        return self.user or self.claimed_user

    @property
    def body(self) -> dict[str, Any]:
        """The decoded body, for reading; change it with `edit`. Raises BadRequest if it cannot be decoded."""
        if self._body is None:
            self._body = _decode_body(_decode, self.raw)
        return self._body

    def edit(self, **fields: Any) -> None:
        """Set top-level fields; `msgspec.UNSET` removes one. The other fields keep their bytes.

        Raises BadRequest if the body is no JSON object.
        """
        parts = _decode_body(_split, self.raw)
        for name, value in fields.items():
            if value is msgspec.UNSET:
                parts.pop(name, None)
            else:
                parts[name] = msgspec.Raw(_encode(value))
        self.raw = _encode(parts)
        self._body = None


def _decode_body(decode: Callable[[bytes], dict[str, T]], raw: bytes) -> dict[str, T]:
    # Surfaces look only at the fields they know; what is wrong elsewhere is found here.
    try:
        return decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        raise BadRequest(f"the body is not valid JSON: {error}") from None
