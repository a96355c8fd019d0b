"""The contract of an API endpoint: one declaration that every layer reads.

    body ──► ParsedRequest ──► Request.endpoint ──► middlewares choose by capability ──► worker
     │                              ├── name          metrics, log lines, journals
     └── text_fields                └── reply_form    usage, the end of a stream, guarded answers

A declaration that is neither guarded nor exempt with a reason cannot be made, so no gateway starts with one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from radixway.core.config import ConfigError
from radixway.core.http import FormBody, decode_json, decode_query
from radixway.core.pipeline.endpoints.large_bodies import LARGE_BODY_BYTES
from radixway.core.work_slices import WorkSlices

ModelName = Annotated[str, Meta(max_length=256)]
"""A model as a body may name it. Names are kept in journals, so they cannot be of any size."""

Priority = Annotated[int, Meta(ge=-(2**31), lt=2**31)] | None
Milliseconds = Annotated[float, Meta(gt=0)] | None
Staleness = Annotated[int, Meta(ge=0, lt=2**31)] | None
Version = Annotated[str, Meta(min_length=1, max_length=256)] | int | None

Rids = str | list[str] | None
"""SGLang's `rid`: one for all prompts of a body, or one for each."""

_WITHHELD_XARGS = frozenset({"kv_cache_report_mode"})
"""vLLM's extra arguments that clients may not set: with this one it publishes blocks again that it has
published, to every gateway that follows its KV events."""

_MAX_USER_CHARS = 256
_SESSION = "/sessions/{session_id}"


class ReplyForm(Enum):
    """The wire form of replies, whole and streamed."""

    CHAT = "chat"
    """OpenAI's chat completions: `choices` of messages."""
    COMPLETION = "completion"
    """OpenAI's completions: `choices` of texts."""
    GENERATE = "generate"
    """SGLang's `/generate`: `text`, `output_ids` and `meta_info`; several answers each have their own."""
    RESPONSE = "response"
    MESSAGE = "message"
    POOLING = "pooling"
    """Vectors or scores: nothing is generated, and `usage` counts the prompt alone."""
    OPAQUE = "opaque"
    """Audio, transcripts, pictures, files: passed on whatever they are, and read for no text."""
    TGI = "tgi"
    """TGI's stream to our pull workers; no endpoint replies so."""


_NOT_GENERATED = frozenset({ReplyForm.POOLING, ReplyForm.OPAQUE})


class ParsedRequest(msgspec.Struct, gc=False):
    """The fields of a body that the gateway reads."""

    model: str | None
    stream: bool = False
    priority: int | None = None
    ttft_slo_ms: float | None = None
    """The client's objective for its first token. The field is the gateway's own: workers do not get it."""
    max_staleness: int | None = None
    """The gateway's own too, like the next."""
    min_weight_version: str | int | None = None
    rids: tuple[str, ...] = ()
    user: str | None = None
    answers: int | None = 1
    max_answer_tokens: int | None = None
    """Tokens that each of its `answers` may have, 0 if the body sets no limit; None: the body must be read
    to know how much is generated for it."""
    vllm_xargs: dict[str, Any] | None = None
    """The body's without those that are not for clients to set; None: there were none of these."""


class RequestBody(msgspec.Struct, kw_only=True):
    """The fields that the gateway reads of every body; all others travel on as they are."""

    model: ModelName | None = None
    priority: Priority = None
    ttft_slo_ms: Milliseconds = None
    vllm_xargs: Any = None

    def parse(self) -> ParsedRequest:
        """Return what the gateway must know of the body. Raises BadBodyError, naming the field."""
        return ParsedRequest(self.model, False, self.priority, self.ttft_slo_ms)

    def check_xargs(self, parsed: ParsedRequest) -> ParsedRequest:
        """Return `parsed` with the `vllm_xargs` that workers get where they are not the body's."""
        given = self.vllm_xargs
        if isinstance(given, dict) and not _WITHHELD_XARGS.isdisjoint(given):
            parsed.vllm_xargs = {name: given[name] for name in given if name not in _WITHHELD_XARGS}
        return parsed


class LargeBody(RequestBody, kw_only=True):
    """The same fields where the body is large: its long arrays are `msgspec.Raw`."""

    @classmethod
    def is_worthwhile(cls, raw: bytes) -> bool:
        """Return whether the large body `raw` takes less so than at once."""
        return True

    def parse_in_slices(self) -> WorkSlices[ParsedRequest | None]:
        """Check the long arrays, by default none, and parse; None where `read` has something to say.

        Raises BadBodyError.
        """
        yield from ()
        return self.parse()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Endpoint:
    """An API endpoint. Raises ConfigError for a declaration that the guard could not read."""

    path: str
    """Path of clients; `/sessions/{session_id}/…` for agents' calls within a session."""
    name: str
    """Name in metrics, logs and journals: `openai.chat`."""
    description: str
    """One sentence for OpenAPI."""
    body: type[RequestBody]
    """The schema of its bodies, as far as the gateway reads them."""
    text_fields: tuple[str, ...]
    """Top-level fields of the body in which a model's texts lie; the first one tells the prompt's form."""
    reply_form: ReplyForm
    large_body: type[LargeBody] | None = None
    """The schema by which large bodies are read in slices; None: they are read like others."""
    aliases: tuple[str, ...] = ()
    """Other paths of the same endpoint. Workers are asked at the path that the client called."""
    methods: tuple[str, ...] = ("POST",)
    guarded: bool = True
    exempt_reason: str | None = None
    """Why it is not guarded; required then."""
    chooses_model: bool = False
    """The model may be left to the semantic layer."""
    is_cacheable: bool = False
    """The semantic cache may store its answers."""
    takes_tools: bool = False
    """Bodies may list tools beside messages."""
    salt_field: str = "cache_salt"
    """The field by which engines keep prefix caches apart; empty: nothing of it is cached."""
    operation: str = "chat"
    """OpenTelemetry's `gen_ai.operation.name`."""
    by_surface: bool = False
    """Not every worker has it: those that do, by their `/openapi.json`, are asked before others."""
    takes_forms: bool = False
    """Bodies are `multipart/form-data`; a file among `text_fields` is read line by line."""
    _decoder: msgspec.json.Decoder[RequestBody] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_decoder", msgspec.json.Decoder(self.body))
        if self.guarded and self.exempt_reason is not None:
            raise ConfigError(f"endpoint {self.name}: it is guarded, so exempt_reason has no meaning")
        if not self.guarded and not (self.exempt_reason or "").strip():
            raise ConfigError(
                f"endpoint {self.name}: it is neither guarded nor exempt: leave guarded=True, or say in"
                " exempt_reason why its texts need no check"
            )
        if self.guarded and not self.text_fields:
            raise ConfigError(
                f"endpoint {self.name}: it is guarded, and text_fields is empty: name the fields with texts,"
                " or give guarded=False and an exempt_reason"
            )

    @property
    def paths(self) -> tuple[str, ...]:
        """The path and its aliases."""
        return (self.path, *self.aliases)

    @property
    def has_text(self) -> bool:
        """True if bodies carry texts for a model."""
        return bool(self.text_fields)

    @property
    def generates(self) -> bool:
        """True if a model writes the reply as text."""
        return self.reply_form not in _NOT_GENERATED

    @property
    def streams(self) -> bool:
        """True if a client may ask for a stream."""
        return "stream" in self.body.__struct_fields__

    @property
    def has_token_ids(self) -> bool:
        """True if replies carry the exact tokens, and each of several answers its own usage."""
        return self.reply_form is ReplyForm.GENERATE

    @property
    def is_in_session(self) -> bool:
        """True if it is called by agents, within a session."""
        return self.path.startswith(_SESSION)

    @property
    def paths_in_session(self) -> tuple[str, ...]:
        """The path and its aliases as they follow a session's id."""
        return tuple(path.removeprefix(_SESSION) for path in self.paths)

    def read(self, raw: bytes) -> ParsedRequest:
        """Return what the gateway must know of the body `raw`. Raises BadBodyError, naming the field."""
        body = decode_json(self._decoder, raw)
        return body.check_xargs(body.parse())

    def read_form(self, form: FormBody) -> ParsedRequest:
        """Return what the gateway must know of `form`. Raises BadBodyError, naming the field."""
        return decode_query(form.read_fields(), self.body).parse()

    def read_in_slices(self, raw: bytes) -> WorkSlices[ParsedRequest]:
        """Like `read`, in slices where the body is large."""
        if len(raw) < LARGE_BODY_BYTES or self.large_body is None or not self.large_body.is_worthwhile(raw):
            return self.read(raw)
        body = decode_json(msgspec.json.Decoder(self.large_body), raw)
        yield
        parsed = yield from body.parse_in_slices()
        if parsed is None:
            return self.read(raw)
        return body.check_xargs(parsed)


class EndpointRegistry:
    """Endpoints by name, in the order in which they were added."""

    def __init__(self, endpoints: Iterable[Endpoint] = ()) -> None:
        self._by_name: dict[str, Endpoint] = {}
        for endpoint in endpoints:
            self.add(endpoint)

    def add(self, endpoint: Endpoint) -> None:
        """Serve `endpoint` from the next start on. Raises ConfigError if its name or a path is taken."""
        for known in self:
            if known.name == endpoint.name or set(known.paths) & set(endpoint.paths):
                raise ConfigError(f"endpoint {endpoint.name}: its name or a path of it is {known.name}'s")
        self._by_name[endpoint.name] = endpoint

    def remove(self, endpoint: Endpoint) -> None:
        """Take `endpoint` out again."""
        del self._by_name[endpoint.name]

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._by_name.values())

    def __getitem__(self, name: str) -> Endpoint:
        return self._by_name[name]

    def get(self, name: str) -> Endpoint | None:
        """Return the endpoint of that name, if there is one."""
        return self._by_name.get(name)

    def served_directly(self) -> dict[str, Endpoint]:
        """Return the endpoints outside of sessions, by each of their paths."""
        return {path: endpoint for endpoint in self if not endpoint.is_in_session for path in endpoint.paths}


def named_user(*claims: Any) -> str | None:
    """Return who asks, of the fields in which protocols say so; what is no name is passed over."""
    for name in claims:
        if isinstance(name, str) and 0 < len(name) <= _MAX_USER_CHARS:
            return name
    return None


def named_rids(rid: Rids) -> tuple[str, ...]:
    """Return what the body calls the request, by its `rid`."""
    return () if rid is None else (rid,) if isinstance(rid, str) else tuple(rid)
