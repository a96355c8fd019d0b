"""The events of SGLang's `/generate` streams, and what they add up to.

Most servers repeat the whole answer so far in each event. Those that send only what is new
(`--incremental-streaming-output`) are known by events with fewer tokens than they say there are.
"""

import msgspec

from radixway.core.http.server_sent_events import event_data, split_events
from radixway.trajectories.partial_answer import Json, is_aborted

_decode = msgspec.json.Decoder().decode


class GenerateAttempt:
    """The events of one attempt, added up to the reply it has given so far."""

    def __init__(self) -> None:
        self.whole: Json | None = None
        self.incremental: bool | None = None
        """Events hold only what is new; None while that is not known."""

    @property
    def is_incremental(self) -> bool:
        """Every event counts: what came before is not in the last one."""
        return self.incremental is not False

    def add_event(self, event: Json) -> Json:
        """The reply so far, this event included."""
        before = self.whole
        if before is not None and self.incremental is None:
            self.incremental = _is_incremental(before, event)
        if before is not None and self.incremental and isinstance(event.get("output_ids"), list):
            event = _merge_event(before, event)
        self.whole = event
        return event


def read_event(raw: bytes) -> Json | None:
    """The answer in the server-sent event `raw`; None for one that has none: `[DONE]`, an error."""
    data = event_data(raw)
    if not data.startswith(b"{"):
        return None
    try:
        event = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("meta_info"), dict) else None


def last_event(chunk: bytes) -> Json | None:
    """The last answer in a chunk."""
    return next(filter(None, map(read_event, reversed(list(split_events(chunk))))), None)


def fuller_reply(before: Json | None, whole: Json) -> Json:
    """A reply that a worker broke off, with all that it had given: the last event may hold less of it."""
    if before is None or not is_aborted(whole):
        return whole
    seen = [reply.get("output_ids") for reply in (before, whole)]
    logprobs = [reply["meta_info"].get("output_token_logprobs") for reply in (before, whole)]
    counts = [
        [len(given) for given in pair if isinstance(given, list)] for pair in zip(seen, logprobs, strict=True)
    ]
    if counts[0] and min(counts[0]) > min(counts[1], default=0):
        kept = before["meta_info"] | {"finish_reason": whole["meta_info"]["finish_reason"]}
        return before | {"meta_info": kept}
    return whole


def _is_incremental(before: Json, event: Json) -> bool | None:
    """Whether the second of two events holds only what is new; None if both ways of reading it hold."""
    earlier, ids = before.get("output_ids"), event.get("output_ids")
    meta = event.get("meta_info")
    count = meta.get("completion_tokens") if isinstance(meta, dict) else None
    if not isinstance(ids, list) or not isinstance(earlier, list) or type(count) is not int or not earlier:
        return None
    return len(ids) < count


def _merge_event(before: Json, event: Json) -> Json:
    """`before` and what is new in `event`. Lists in `meta_info` may be new or whole."""
    new = len(_output_ids(event))
    meta: Json = dict(event["meta_info"])
    for name, value in before["meta_info"].items():
        more = meta.get(name)
        if name.startswith("output_") and isinstance(value, list) and isinstance(more, list):
            meta[name] = value + more if len(more) == new else more
        elif name.startswith("input_") and value and not more:
            meta[name] = value
    whole = before | event | {"meta_info": meta, "output_ids": _output_ids(before) + _output_ids(event)}
    if isinstance(event.get("text"), str):
        whole["text"] = _reply_text(before) + _reply_text(event)
    return whole


def reply_delta(reply: Json, passed: Json) -> Json:
    """The part of a reply beyond what the client has seen of it."""
    seen = len(_output_ids(passed))
    new = reply | {
        "meta_info": {
            name: value[seen:] if name.startswith("output_") and isinstance(value, list) else value
            for name, value in reply["meta_info"].items()
        }
    }
    if isinstance(reply.get("output_ids"), list):
        new["output_ids"] = _output_ids(reply)[seen:]
    if isinstance(reply.get("text"), str):
        new["text"] = _reply_text(reply)[len(_reply_text(passed)) :]
    return new


def _output_ids(reply: Json) -> list[int]:
    ids = reply.get("output_ids")
    return ids if isinstance(ids, list) else []


def _reply_text(reply: Json) -> str:
    text = reply.get("text")
    return text if isinstance(text, str) else ""
