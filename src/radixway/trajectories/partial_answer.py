"""Answers of SGLang's `/generate` that came in several pieces, put together as one.

first attempt   [prompt | tokens 0 … n) ] abort
second attempt  [prompt  + tokens 0 … n | tokens n … m) ] stop
the client sees [prompt | tokens 0 … m) ] stop        spans [0, n) and [n, m) keep their weight versions

Each part was decoded alone. A character whose bytes lie on both sides shows as U+FFFD at the end of one and
at the beginning of the other, and a stop string that lies on both sides was seen by neither worker.

Routed experts keep the rows that sampling used, not those recomputed later. SGLang returns them in base64: a
row of int32 for each token of prompt and answer but the last one, from `routed_experts_start_len` of the
request on. Servers that do not know that field return all rows again.
"""

import binascii
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any

_NAME = "routed_experts"


def join_reply_experts(
    first: dict[str, Any], second: dict[str, Any], new_tokens: int, *, start: int = 0
) -> dict[str, Any]:
    """The field for `first` continued by `second`, from their `meta_info`; {} where there is none.

    `start` is the client's `routed_experts_start_len`.

    `second` has either its `new_tokens` rows alone, or all of them again: then those of `first` are kept,
    because they are what its tokens were sampled with. Anything else stays as `second` says it.
    """
    rows, later_rows = _decode_rows(first), _decode_rows(second)
    if rows is None or later_rows is None:
        return {_NAME: first[_NAME]} if rows is not None and not new_tokens else {}
    row = _row_bytes(first, rows, start)
    if row is None:
        return {}
    if len(later_rows) == row * new_tokens:
        return {_NAME: _encode_rows(rows + later_rows)}
    if len(later_rows) == len(rows) + row * new_tokens:
        return {_NAME: _encode_rows(rows + later_rows[len(rows) :])}
    return {}


def first_rows(meta: dict[str, Any], *, dropped: int, start: int = 0) -> dict[str, Any]:
    """The field without the rows of the last `dropped` tokens; {} where there is none, or nothing to drop."""
    rows = _decode_rows(meta)
    row = None if rows is None else _row_bytes(meta, rows, start)
    if rows is None or row is None or not dropped:
        return {}
    return {_NAME: _encode_rows(rows[: len(rows) - row * dropped])}


def _row_bytes(meta: dict[str, Any], rows: bytes, start: int) -> int | None:
    prompt, sampled = meta.get("prompt_tokens"), meta.get("completion_tokens")
    if type(prompt) is not int or type(sampled) is not int:
        return None
    count = prompt + sampled - 1 - start
    return len(rows) // count if count > 0 and not len(rows) % count else None


def _decode_rows(meta: dict[str, Any]) -> bytes | None:
    text = meta.get(_NAME)
    if not isinstance(text, str):
        return None
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _encode_rows(rows: bytes) -> str:
    return b64encode(rows).decode("ascii")


_BROKEN = "\ufffd"
_MAX_CHARACTERS_BETWEEN = 8
"""Characters of the few tokens at a splice."""


def is_clean_splice(first: str, second: str) -> bool:
    """True if the texts of `first` and `second` can be concatenated: no character lies across."""
    return not first.endswith(_BROKEN) and not second.startswith(_BROKEN)


def repair_splice(first: str, second: str, decoded: str) -> str | None:
    """The text of both parts, given what all their tokens decode to; None if that does not contain them.

    `second` may be shorter than its tokens are, by a stop string that was cut off.
    """
    head, tail = first.rstrip(_BROKEN), second.lstrip(_BROKEN)
    broken = len(first) - len(head) + len(second) - len(tail)
    limit = max(_MAX_CHARACTERS_BETWEEN, broken)  # a run of bytes that are no characters shows one for each
    for text in (decoded, " " + decoded):  # SentencePiece drops the first space of what it decodes
        if text.startswith(head):
            rest = text[len(head) :]
            at = len(rest) - len(tail)
            if at > limit or not rest.endswith(tail):
                at = rest.find(tail, 1, limit + len(tail))  # 1: some character lies across
            if at >= 0:
                return head + rest[:at] + tail
    return None


def find_stop_across(text: str, seam: int, stops: list[str]) -> tuple[int, int, str] | None:
    """The first stop string to be complete in `text` that begins before `seam` and ends after it.

    Returns where it begins, where it ends, and the string.
    """
    found = []
    for stop in filter(None, stops):
        at = text.find(stop, max(0, seam - len(stop) + 1), seam + len(stop) - 1)
        if at >= 0:
            found.append((at + len(stop), at, stop))
    if not found:
        return None
    end, at, stop = min(found)
    return at, end, stop


Json = dict[str, Any]

_OF_THE_FIRST = ("prompt_tokens", "cached_tokens", "cached_tokens_details", "routed_experts_start_len")


def is_aborted(reply: object) -> bool:
    """True if `reply` is one answer that a worker aborted.

    One that names a 4xx as its reason was not broken off but refused: asking again would not help.
    """
    meta = reply.get("meta_info") if isinstance(reply, dict) else None
    finish = meta.get("finish_reason") if isinstance(meta, dict) else None
    if not isinstance(finish, dict) or finish.get("type") != "abort":
        return False
    status = finish.get("status_code")
    return not (isinstance(status, int) and 400 <= status < 500)


@dataclass(slots=True)
class PartialAnswer:
    """An unfinished answer."""

    reply: Json
    """The reply as `/generate` would return it whole."""
    meta: Json
    ids: list[int]
    """The sampled tokens, each with its log-probability if those were requested."""
    experts_start: int = 0
    """The first token whose routed experts were requested."""
    text_is_longer: bool = False
    """Its text is that of more tokens than these."""

    @property
    def text(self) -> str:
        """Empty where the worker gives none."""
        text = self.reply.get("text")
        return text if isinstance(text, str) else ""

    @property
    def aborted(self) -> bool:
        """A worker broke it off."""
        return is_aborted(self.reply)


def read_partial_answer(
    reply: object, *, with_logprobs: bool = False, experts_start: int = 0
) -> PartialAnswer | None:
    """Read a worker's reply; None if it is nothing that could be continued.

    A worker that aborts a waiting request may return tokens without their log-probabilities. Where these
    are wanted (`with_logprobs`), tokens that lack them count as not sampled.
    """
    if not isinstance(reply, dict) or not isinstance(reply.get("meta_info"), dict):
        return None
    meta: Json = reply["meta_info"]
    logprobs = meta.get("output_token_logprobs")
    scored = _scored_ids(logprobs) if isinstance(logprobs, list) else []
    if scored is None:
        return None
    ids = reply.get("output_ids", scored)
    if not _are_ids(ids) or scored != ids[: len(scored)]:
        return None
    answer = PartialAnswer(reply, meta, ids, experts_start)
    if with_logprobs and len(scored) < len(ids):
        answer = cut_answer(answer, len(scored), text=None if scored else "")
        answer.text_is_longer = bool(scored and answer.text)
    return answer


def join_answers(first: PartialAnswer, second: PartialAnswer, text: str | None = None) -> PartialAnswer:
    """`second` was sampled after `first`; `text` is the text of both, by default one after the other.

    What describes the prompt is the first one's, what describes the end the second one's, lists with an
    entry for each sampled token (`output_…`) are one after the other. Unknown fields are the
    second one's.
    """
    count = len(first.ids) + len(second.ids)
    meta = first.meta | second.meta | {"completion_tokens": count}
    meta |= {name: first.meta[name] for name in _OF_THE_FIRST if name in first.meta}
    for name, value in first.meta.items():
        if name.startswith("input_") and value:
            meta[name] = value
        elif name.startswith("output_") and isinstance(value, list):
            _join_list(meta, name, value, second)
    spans = answer_versions(first) + [
        span | {"start": span["start"] + len(first.ids), "end": span["end"] + len(first.ids)}
        for span in answer_versions(second)
    ]
    if spans:
        meta["weight_versions"] = spans
    finish = meta.get("finish_reason")
    if isinstance(finish, dict) and finish.get("type") == "length" and "length" in finish:
        meta["finish_reason"] = finish | {"length": count}
    if _is_number(first.meta.get("e2e_latency")) and _is_number(second.meta.get("e2e_latency")):
        meta["e2e_latency"] = first.meta["e2e_latency"] + second.meta["e2e_latency"]
    meta |= join_reply_experts(first.meta, second.meta, len(second.ids), start=first.experts_start)
    reply = first.reply | second.reply | {"meta_info": meta}
    if "output_ids" in reply:
        reply["output_ids"] = first.ids + second.ids
    if isinstance(reply.get("text"), str):
        reply["text"] = first.text + second.text if text is None else text
    return PartialAnswer(reply, meta, first.ids + second.ids, first.experts_start)


def cut_answer(
    answer: PartialAnswer, count: int, *, text: str | None = None, finish: Json | None = None
) -> PartialAnswer:
    """Cut an answer after its first `count` tokens; with `text` in place of its text."""
    meta = answer.meta | {"completion_tokens": count}
    for name, value in answer.meta.items():
        if name.startswith("output_") and isinstance(value, list):
            meta[name] = value[:count]
    if "weight_versions" in meta:
        meta["weight_versions"] = answer_versions(answer, count)
    if finish is not None:
        meta["finish_reason"] = finish
    meta |= first_rows(answer.meta, dropped=len(answer.ids) - count, start=answer.experts_start)
    reply = answer.reply | {"meta_info": meta}
    if "output_ids" in reply:
        reply["output_ids"] = answer.ids[:count]
    if text is not None and "text" in reply:
        reply["text"] = text
    return PartialAnswer(reply, meta, answer.ids[:count], answer.experts_start)


def answer_versions(answer: PartialAnswer, count: int | None = None) -> list[Json]:
    """Return the weight versions of its first `count` tokens [start, end): the worker's own spans, else one
    for all.

    Empty where it names no version."""
    count = len(answer.ids) if count is None else count
    given = answer.meta.get("weight_versions")
    if isinstance(given, list) and all(map(_is_span, given)):
        return [span | {"end": min(span["end"], count)} for span in given if span["start"] < count]
    version = answer.meta.get("weight_version")
    return [{"version": version, "start": 0, "end": count}] if count and version is not None else []


def _join_list(meta: Json, name: str, first: list[Any], second: PartialAnswer) -> None:
    more = second.meta.get(name)
    if isinstance(more, list):
        meta[name] = first + more
    elif second.ids:
        del meta[name]  # it has no entries for the second part: better none than some in the wrong places


def _scored_ids(logprobs: list[Any]) -> list[int] | None:
    """Return the ids of `output_token_logprobs`, rows of [logprob, id, text]."""
    if all(isinstance(entry, list) and len(entry) >= 2 for entry in logprobs):
        ids = [entry[1] for entry in logprobs]
        return ids if _are_ids(ids) else None
    return None


def _are_ids(value: object) -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _is_span(value: object) -> bool:
    return isinstance(value, dict) and type(value.get("start")) is int and type(value.get("end")) is int


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
