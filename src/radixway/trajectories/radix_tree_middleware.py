"""Recording on `/generate`: known text is sent as its recorded tokens, and the reply is recorded.

client ─ "…Hi!<|im_end|>\\n<|im_start|>user…" ─► RadixTreeMiddleware ─ input_ids ─► … ─► worker
                 known tokens ───────────────┘ └─ only the rest is tokenized
client ◄─ the worker's own bytes ◄──────────────  ids, log-probabilities and versions are stored
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import msgspec

from radixway.core.pipeline import Chunks, Endpoint, Next, Reply, Request, SendChunk, Services
from radixway.trajectories.generate_replies import (
    MultiAnswerReader,
    SampledTokens,
    SingleAnswerReader,
    UnusableReplyError,
    read_sampled_tokens,
)
from radixway.trajectories.memory_budget import StoreFullError
from radixway.trajectories.path_owners import PathOwner, PathOwners
from radixway.trajectories.retrieval import stable_match
from radixway.trajectories.store import PathHold
from radixway.trajectories.string_radix_trie import StringRadixTrie
from radixway.trajectories.text_match import encode_ids
from radixway.trajectories.token_records import join_spans, shared_label
from radixway.trajectories.token_segment import TokenSegment
from radixway.trajectories.tokenizer_adapter import TokenizerAdapter
from radixway.trajectories.trie_registry import TrajectoryMetrics, TrieRegistry

_MAX_INLINE_BYTES = 4096
"""Bytes of text tokenized inline; longer ones in a thread."""
_MAX_TEXT_CHARACTERS = 2**22
"""A longer text is no model's prompt."""
_OTHER_INPUT = ("image_data", "video_data", "audio_data", "input_embeds")
"""Fields with input other than the text's tokens."""
_LAST_EVENT = b"[DONE]"


@dataclass(slots=True)
class RecordedPrompt:
    """The prompt that is sent to the worker: the tokens of a held path, and those behind it."""

    hold: PathHold | None
    """None where all of `ids` are new."""
    ids: list[int]
    """Token ids after the known ones."""
    text: bytes
    """Text of `ids`."""

    @property
    def known(self) -> int:
        """Number of known tokens."""
        return 0 if self.hold is None else self.hold.tokens


class RadixTreeMiddleware:
    """Sends tokens in place of text, and records the tokens that come back. Slime's name for it.

    The client's bytes reach the worker but for `text`, which becomes `input_ids`, and `return_logprob`, which
    is set; the worker's bytes reach the client as they are. What cannot be recorded passes all the same, and
    its journal says why.
    """

    def __init__(self, services: Services) -> None:
        if services.tokenizer_of is None:
            raise TypeError("no served models given, which name each model's tokenizer")
        self.tries = TrieRegistry(services.config.trajectories, services.tokenizer_of)
        self._counts = TrajectoryMetrics(services.metrics, self.tries)
        self._session_headers = [name.encode("ascii") for name in services.config.routing.session.headers]

    def applies_to(self, endpoint: Endpoint) -> bool:
        """True if workers say at `endpoint` exactly which tokens they sampled."""
        return endpoint.has_token_ids

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        """The worker's reply to `request`, whose prompt is sent as its known tokens."""
        recording = await self._start_recording(request)
        if recording is None:
            return await call_next(request)
        try:
            reply = await call_next(request)
        except BaseException:
            recording.drop_recording()
            raise
        if reply.chunks is not None:
            reader = SingleAnswerReader() if request.answers == 1 else MultiAnswerReader()
            recorded = RecordedStream(reply.chunks, recording, reader)
            request.open_streams.append(recorded)
            reply.chunks = recorded
        elif reply.status == 200:
            recording.record_answers(lambda: read_sampled_tokens(reply.body))
        else:
            recording.drop_recording()
        return reply

    async def _start_recording(self, request: Request) -> AnswerRecording | None:
        body = request.body
        text, ids = body.get("text"), body.get("input_ids")
        trie, session = await self.tries.trie_for(request.model), self._session_id(request)
        if session is not None:
            trie.store.paths.register_session(session)
        if not isinstance(text, str) and not (isinstance(ids, list) and ids and isinstance(ids[0], int)):
            _note_skipped(request, "several prompts in one request")
            return None
        if any(body.get(field) for field in _OTHER_INPUT):
            _note_skipped(request, "there is more in it than text")
            return None
        if trie.encoder is None:
            _note_skipped(request, "the model's tokenizer is not known here (trajectories.tokenizer)")
            return None
        try:
            if isinstance(text, str):
                prompt = await self._tokenize_text(text, trie, trie.encoder, session)
                self._counts.count_lookup(prompt.known, prompt.known + len(prompt.ids))
            else:
                prompt = _client_tokens(ids or [], trie.encoder)
        except ValueError as error:  # for the worker to refuse
            _note_skipped(request, str(error))
            return None
        request.edit(input_ids=_encode_prompt(prompt), text=msgspec.UNSET, return_logprob=True)
        request.journal.add("trajectory", known=prompt.known, tokenized=len(prompt.ids))
        request.journal.session = session
        return AnswerRecording(request, trie, prompt, session, self.tries.owners)

    def _session_id(self, request: Request) -> str | None:
        for name, value in request.headers:
            if name in self._session_headers:
                return value.decode("latin-1")
        named = request.body.get("session_id")
        return named if isinstance(named, str) and named else None

    async def _tokenize_text(
        self,
        text: str,
        trie: StringRadixTrie,
        encoder: TokenizerAdapter,
        session: str | None,
    ) -> RecordedPrompt:
        """Return the tokens to send for `text`. Raises ValueError for text that cannot be tokenized."""
        if not text:
            raise ValueError("the text is empty")
        if len(text) > _MAX_TEXT_CHARACTERS:
            raise ValueError("the text is too long for any model")
        store, raw = trie.store, text.encode()
        found = store.match_prefix(text, session)
        trie.count_lookup(found)
        found = stable_match(found, encoder, raw)
        hold = store.hold_path(found)
        try:
            raw = raw[found.text :]
            rest, first = raw.decode(), not found.tokens
            if len(raw) <= _MAX_INLINE_BYTES:
                ids = encoder.encode(rest, first=first) if rest else []
            else:
                ids = await asyncio.to_thread(encoder.encode, rest, first=first)
        except BaseException:
            store.release_hold(hold)
            raise
        return RecordedPrompt(hold, ids, raw)


def _encode_prompt(prompt: RecordedPrompt) -> msgspec.Raw:
    """Return all of its token ids as JSON."""
    new = msgspec.json.encode(prompt.ids)
    if prompt.hold is None or not prompt.known:
        return msgspec.Raw(new)
    known = encode_ids(prompt.hold.node)
    return msgspec.Raw(b"[%b,%b" % (known, new[1:]) if prompt.ids else b"[%b]" % known)


def _note_skipped(request: Request, reason: str) -> None:
    request.journal.add("trajectory", recorded=False, reason=reason)


def _client_tokens(ids: list[Any], encoder: TokenizerAdapter) -> RecordedPrompt:
    """Return the client's tokens. Raises ValueError."""
    if not all(type(token) is int and 0 <= token < 2**32 for token in ids):
        raise ValueError("input_ids are no token ids")
    pieces = encoder.token_bytes
    return RecordedPrompt(None, ids, b"".join([pieces[token] for token in ids]))


class AnswerRecording:
    """Records one request; `record_answers` or `drop_recording` end it, and may be called again."""

    def __init__(
        self,
        request: Request,
        trie: StringRadixTrie,
        prompt: RecordedPrompt,
        session: str | None,
        owners: PathOwners,
    ) -> None:
        self._request = request
        self._trie = trie
        self._store = trie.store
        self._prompt = prompt
        self._session = session
        self._owners = owners
        self._hold = prompt.hold
        self._open = True

    def record_answers(self, read: Callable[[], list[SampledTokens]], *, is_complete: bool = True) -> None:
        """Record the answers that `read` finds in the reply; the journal has the outcome.

        `is_complete`: the answer has ended. Of one that was cut, the received tokens are recorded.
        """
        if not self._open:
            return
        if self._request.journal.is_erased:
            _note_skipped(self._request, "erased")
            self.drop_recording()
            return
        try:
            answers = read()
            for left, answer in zip(range(len(answers), 0, -1), answers, strict=True):
                self._store_answer(answer, last=left == 1)
        except (UnusableReplyError, StoreFullError, ValueError) as error:
            _note_skipped(self._request, str(error))
        else:
            tokens = sum(len(a.ids) for a in answers)
            self._request.journal.add("trajectory", recorded=True, tokens=tokens, whole=is_complete)
        self.drop_recording()

    def drop_recording(self) -> None:
        """Record nothing more."""
        if self._open and self._hold is not None:
            self._store.release_hold(self._hold)
        self._open = False

    def _store_answer(self, answer: SampledTokens, *, last: bool) -> None:
        prompt, store = self._prompt, self._store
        new, made = len(prompt.ids), len(answer.ids)
        given = TokenSegment.from_labels(
            [*prompt.ids, *answer.ids],
            prompt.text + answer.text.encode("utf-8", "surrogatepass"),
            array("f", bytes(4 * new)) + answer.logprobs,
            join_spans(((new, shared_label("prompt", 0)),) if new else (), answer.spans),
            ((new + made, answer.experts),) if answer.experts is not None else (),
        )
        self._trie.make_room(new + made, answer.version)
        hold = self._hold
        if hold is None:
            hold = store.insert(given, answer.version, session=self._session)
        else:
            if last:
                self._hold = None
            else:
                hold = store.hold_path(hold)
            hold = store.extend_path(hold, given, answer.version, session=self._session)
        owner = PathOwner(self._request.caller.tenant, self._request.user_or_claimed, self._session)
        self._owners.record_owner(owner, store, hold.node)
        store.release_hold(hold)


class RecordedStream:
    """A stream that passes through; recorded at its end, or when it is closed before that.

    It is recorded before the client gets its last bytes.
    """

    def __init__(
        self, chunks: Chunks, recording: AnswerRecording, reader: SingleAnswerReader | MultiAnswerReader
    ) -> None:
        self._chunks = chunks
        self._recording = recording
        self._reader = reader
        self._ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """The worker's next bytes."""
        try:
            chunk = await anext(self._chunks)
        except StopAsyncIteration:
            self._ended = True
            raise
        self._read_chunk(chunk)
        return chunk

    async def pass_on(self, send: SendChunk) -> None:
        """Await `send` for every chunk."""

        async def read_and_send(chunk: bytes) -> None:
            self._read_chunk(chunk)
            await send(chunk)

        await self._chunks.pass_on(read_and_send)
        self._ended = True

    async def aclose(self) -> None:
        """Close the worker's stream, and record what has come."""
        self._record_stream()
        await self._chunks.aclose()

    def _read_chunk(self, chunk: bytes) -> None:
        try:
            self._reader.read_chunk(chunk)
        except UnusableReplyError:
            self._recording.drop_recording()
        if _LAST_EVENT in chunk[-16:]:
            self._ended = True
            self._record_stream()

    def _record_stream(self) -> None:
        self._recording.record_answers(self._reader.answers, is_complete=self._ended)
