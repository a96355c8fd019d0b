"""Replies to blocked requests: an error, and the answer that stands for it in each protocol.

The answers are templates in `bundled/blocked_replies.json`: `"$text"`, `"$now"`, `"$model"` and `"$code"`
stand for values of the block, `$id` behind a prefix for its id, `"$NAME"` for an earlier part of the form.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Literal

import msgspec

from radixway.bundled import read_text
from radixway.core.http.server_sent_events import DONE_EVENT, write_event
from radixway.core.pipeline import GatewayError, Reply, ReplyForm, Request

WORKER = "guard"
"""Value of `x-radixway-worker`."""

Headers = list[tuple[bytes, bytes]]


class _GuardError(GatewayError):
    """An error whose reply tells what the guard did."""

    def __init__(self, message: str, *, code: str | None = None, noted: Headers | None = None) -> None:
        super().__init__(message, code=code)
        self.noted: Headers = noted or []
        """The published headers."""

    def headers(self) -> Headers:
        return [*super().headers(), *self.noted]


class GuardBlockedError(_GuardError):
    """The guard does not let a request pass."""

    status = 403

    def __init__(
        self,
        message: str,
        *,
        code: str,
        kind: Literal["pii-violation", "jailbreak-blocked"],
        model: str,
        noted: Headers,
    ) -> None:
        """`kind` and `model` are what the answer that stands for it names in its id and as its model."""
        super().__init__(message, code=code, noted=noted)
        self.kind = kind
        self.model = model


class GuardFailedError(_GuardError):
    """The guard cannot judge a request, and may not let it pass unjudged (`on_error: block`)."""

    status = 503
    code = "guard_failed"
    retry_after_s = 1

    def __init__(self, guards: Iterable[str]) -> None:
        failed = " and ".join(guards)
        super().__init__(f"the guard could not read this request ({failed}); nothing passes unread here")


def pii_blocked(model: str, types: Iterable[str]) -> GuardBlockedError:
    """Return the error for personal data of `types`, which `model` may not be shown."""
    named = ", ".join(sorted(types))
    return GuardBlockedError(
        f"I cannot process this request as it contains personally identifiable information ({named}) that is"
        f" not allowed for the '{model}' model according to the configured privacy policy. Please remove any"
        " sensitive information and try again.",
        code="pii_policy_denied",
        kind="pii-violation",
        model=model,
        noted=[(b"x-vsr-pii-violation", b"true")],
    )


def jailbreak_blocked(kind: str, confidence: float) -> GuardBlockedError:
    """Return the error for an attack of `kind` on the prompt."""
    return GuardBlockedError(
        f"I cannot process this request as it appears to contain a potential jailbreak attempt (type: {kind},"
        f" confidence: {confidence:.3f}). Please rephrase your request in a way that complies with our usage"
        " policies.",
        code="jailbreak_block",
        kind="jailbreak-blocked",
        model="security-filter",
        noted=[
            (b"x-vsr-jailbreak-blocked", b"true"),
            (b"x-vsr-jailbreak-type", kind.encode("ascii", "replace")),
            (b"x-vsr-jailbreak-confidence", b"%.3f" % confidence),
        ],
    )


def block_reply(blocked: GuardBlockedError, request: Request, now: float) -> Reply:
    """Return the published answer: status 200, `content_filter`, no usage; events where `request` streams.

    `now`: seconds since the epoch, part of the id.
    """
    values: dict[str, Any] = {
        "id": f"{blocked.kind}-{int(now)}",
        "now": int(now),
        "model": blocked.model,
        "text": str(blocked),
        "code": blocked.code,
    }
    for name, template in _templates()[request.endpoint.reply_form].items():
        values[name] = _fill(template, values)
    if request.stream:
        kind, body = b"text/event-stream", b"".join(_encode_events(values["events"]))
    else:
        kind, body = b"application/json", msgspec.json.encode(values["whole"])
    return Reply(200, [(b"content-type", kind), *blocked.noted], WORKER, body)


def can_block(form: ReplyForm) -> bool:
    """Return whether there is an answer in `form` that stands for a block."""
    return form in _templates()


@cache
def _templates() -> Mapping[ReplyForm, dict[str, Any]]:
    return {ReplyForm(name): parts for name, parts in json.loads(read_text("blocked_replies.json")).items()}


def _fill(template: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(template, dict):
        return {name: _fill(each, values) for name, each in template.items()}
    if isinstance(template, list):
        return [_fill(each, values) for each in template]
    if not isinstance(template, str) or "$" not in template:
        return template
    prefix, _, name = template.partition("$")
    return prefix + values[name] if prefix else values[name]


def _encode_events(events: Iterable[dict[str, Any]]) -> Iterable[bytes]:
    """Events that name their type, as Anthropic's and Responses' do, need no `[DONE]`."""
    for event in events:
        yield write_event(msgspec.json.encode(event), event_type=event.get("type", ""))
    if "type" not in event:
        yield DONE_EVENT
