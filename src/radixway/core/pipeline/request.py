"""A request on its way through the gateway, whatever protocol it came in."""

import re
from collections.abc import Callable
from typing import Any, Self, TypeVar

import msgspec

from radixway.core.http import FormBody
from radixway.core.pipeline.contexts import (
    ANONYMOUS,
    UNCLASSIFIED,
    CacheContext,
    Caller,
    RoutingContext,
    SemanticContext,
)
from radixway.core.pipeline.endpoints import Endpoint, ParsedRequest
from radixway.core.pipeline.errors import BadRequest
from radixway.core.pipeline.interfaces import GuardClearance
from radixway.core.pipeline.reply import Chunks
from radixway.core.telemetry import Journal

FieldT = TypeVar("FieldT")

ANY_MODEL = "auto"
"""The model name with which a client leaves the choice to the gateway."""

_BEGINS_WITH_A_FIELD = re.compile(rb'\{\s*"')

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Request(msgspec.Struct, eq=False):
    """The wire facts of a request, and one context per layer for what that layer adds.

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
    content_type: bytes = b"application/json"
    form: FormBody | None = None
    """The body's parts, where it is a form."""
    model: str | None = None
    """The model asked for; None where the protocol or the client names none."""
    stream: bool = False
    answers: int | None = 1
    """Number of answers that the body asks for; None: several, and it is not known how many."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """The client's headers that travel on to the worker, names in lower case; none that describe the body or
    the connection, which the transport writes itself."""
    rids: tuple[str, ...] = ()
    """The body's own names for the request, beside `id`."""
    claimed_user: str | None = None
    """The user that the body names."""
    priority: int = 0
    """Priority of the client, interpreted by the queue."""
    ttft_s: float | None = None
    """The client's objective for its first token."""
    max_staleness: int | None = None
    """Number of versions that a worker's weights may be behind the fleet's."""
    min_weight_version: str | None = None
    """The oldest version of weights that will do."""
    pinned: str | None = None
    """Name or URL of the only worker that may answer, as a trusted proxy says."""
    preference: str | None = None
    """The header's preference for the choice of a model: `best`, `fast` or `cheap`."""
    cache_control: str | None = None
    """The headers `cache-control` and `x-vsr-cache-control`, joined."""
    is_dry_run: bool = False
    """No client waits for an answer. Decisions are not counted, and the guard's findings are no incident."""
    caller: Caller = ANONYMOUS
    routing: RoutingContext = msgspec.field(default_factory=RoutingContext)
    semantics: SemanticContext = UNCLASSIFIED
    clearance: GuardClearance | None = None
    """The guard's check of models that may see the request; None: it found nothing to hide."""
    open_streams: list[Chunks] = msgspec.field(default_factory=list)
    """Streams opened for this request. Its creator closes them in any case."""
    inner_steps_s: float = 0.0
    """The pipeline's own clock: what the middleware that runs now has spent in those after it."""
    _cache: CacheContext | None = None
    _body: dict[str, Any] | None = None
    _parsed: ParsedRequest | None = None
    _parsed_raw: bytes | None = None
    """The body that `_parsed` is true of."""

    @property
    def surface(self) -> str:
        """The endpoint's name: `openai.chat`, `openai.completions`, `generate` …"""
        return self.endpoint.name

    @property
    def user_or_claimed(self) -> str | None:
        """The caller's user as authentication knows it, else as the body claims; None once that is erased."""
        return None if self.journal.is_erased else self.caller.user or self.claimed_user

    @property
    def cache(self) -> CacheContext:
        """The semantic cache's context, made when first asked for."""
        if self._cache is None:
            self._cache = CacheContext()
        return self._cache

    def copy(self, *, forget_failures: bool = False, **changes: Any) -> Self:
        """Return a copy with `changes` for another attempt.

        It has the journal, the open streams and the lists of workers in common with this one, but a model of
        its own. `forget_failures`: workers that failed may be asked again.
        """
        routing = msgspec.structs.replace(self.routing)
        if forget_failures:
            routing.failed_workers = []
        return msgspec.structs.replace(self, routing=routing, **changes)

    @property
    def body(self) -> dict[str, Any]:
        """The decoded body, for reading; change it with `edit`. Raises BadRequest if it cannot be decoded."""
        if self._body is None:
            if self.form is None:
                self._body = _decode_body(_decode, self.raw)
            else:
                self._body = self.form.read_fields(self.endpoint.text_fields)
        return self._body

    @property
    def text_bytes(self) -> int:
        """Bytes of the body without the files in it."""
        return len(self.raw) if self.form is None else self.form.text_bytes

    @property
    def parsed(self) -> ParsedRequest | None:
        """What its endpoint read of `raw`, where that was noted and the body was not edited since."""
        return self._parsed if self._parsed_raw is self.raw else None

    def note_parsed(self, parsed: ParsedRequest) -> None:
        """Note what its endpoint read of `raw`, so that nobody has to read it again."""
        self._parsed, self._parsed_raw = parsed, self.raw

    def add_field(self, name: str, value: Any) -> None:
        """Set the top-level field `name`: in front of the others if it is new, and then none is parsed."""
        if _BEGINS_WITH_A_FIELD.match(self.raw) is None or b'"%s"' % name.encode() in self.raw:
            self.edit(**{name: value})
            return
        self.raw = _encode({name: value})[:-1] + b"," + self.raw[1:]
        self._body = None

    def edit(self, **fields: Any) -> None:
        """Set top-level fields (`msgspec.UNSET` removes one); others keep their bytes. Raises BadRequest."""
        if self.form is not None:
            self.form = self.form.with_fields(fields)
            self.raw, self._body = self.form.raw, None
            return
        parts = _decode_body(_split, self.raw)
        for name, value in fields.items():
            if value is msgspec.UNSET:
                parts.pop(name, None)
            else:
                parts[name] = msgspec.Raw(_encode(value))
        self.raw = _encode(parts)
        self._body = None


def _decode_body(decode: Callable[[bytes], dict[str, FieldT]], raw: bytes) -> dict[str, FieldT]:
    # Surfaces look only at the fields they know; what is wrong elsewhere is found here.
    try:
        return decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        raise BadRequest(f"the body is not valid JSON: {error}") from None
