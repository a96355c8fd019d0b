"""A decision put into effect: the request's body edited field by field, the headers of request and reply."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from radixway.core.pipeline import Reply, ReplyForm, Request
from radixway.semantics.decisions.decision_plan import DecisionPlan
from radixway.semantics.decisions.model_selection import ModelCandidate
from radixway.semantics.decisions.reasoning_mode import thinking_fields
from radixway.semantics.decisions.system_prompts import inject_system_prompt

Headers = tuple[tuple[bytes, bytes], ...]

OWN_REQUEST_HEADERS = (
    b"x-selected-model",
    b"x-vsr-model",
    b"x-vsr-category",
    b"x-vsr-reasoning",
    b"x-vsr-reasoning-effort",
    b"x-vsr-cache-status",
)
"""Headers for upstream readers; nothing depends on them."""

_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class AppliedDecision(msgspec.Struct, frozen=True):
    """The result for a request."""

    model: str
    category: str | None
    reasoning: bool
    effort: str | None
    prompt_injected: bool
    sets_reasoning: bool = False
    """A field of its reasoning family turns reasoning on or off."""


def apply_plan(plan: DecisionPlan, candidate: ModelCandidate, request: Request) -> AppliedDecision:
    """Edit the request for one of the plan's models: model, thinking, system prompt. Nothing else changes."""
    section = plan.snapshot.section
    family = section.family_of(candidate.model)
    effort = candidate.effort or section.default_reasoning_effort
    fields: dict[str, Any] = {"model": candidate.model}
    messages = None
    thinking: dict[str, Any] = {}
    if request.endpoint.reply_form is ReplyForm.CHAT:
        thinking = thinking_fields(request.body, family, plan.reasoning.on, effort)
        fields |= thinking
        messages = inject_system_prompt(_split(request.raw)["messages"], plan.prompt, plan.prompt_mode)
        if messages is not None:
            fields["messages"] = messages
    request.edit(**fields)
    request.model = candidate.model
    has_effort = plan.reasoning.on and family is not None and family.type == "reasoning_effort"
    applied = AppliedDecision(
        model=candidate.model,
        category=plan.verdict.category,
        reasoning=plan.reasoning.on,
        effort=effort if has_effort else None,
        prompt_injected=messages is not None,
        sets_reasoning=bool(thinking),
    )
    rule = plan.verdict.rule
    mutation = {} if rule is None else rule.plugins.get("header_mutation", {})
    headers = mutate_headers(drop_headers(request.headers, OWN_REQUEST_HEADERS), mutation)
    request.headers = (*headers, *_request_headers(applied, request.cache.status))
    return applied


def set_decision_headers(reply: Reply, applied: AppliedDecision) -> None:
    """The published headers, on answers that came from a model and are answers (2xx); on others none.

    Whatever of these names a worker sent is taken off: they are the gateway's word.
    """
    reply.headers[:] = [header for header in reply.headers if not header[0].startswith(b"x-vsr-")]
    if not 200 <= reply.status < 300:
        return
    named: dict[bytes, str] = {}
    if applied.category is not None:
        named[b"x-vsr-selected-category"] = applied.category
    named[b"x-vsr-selected-reasoning"] = "on" if applied.reasoning else "off"
    named[b"x-vsr-selected-model"] = applied.model
    named[b"x-vsr-injected-system-prompt"] = "true" if applied.prompt_injected else "false"
    reply.headers.extend((name, encode_header_value(value)) for name, value in named.items())


def drop_headers(headers: Headers, names: Iterable[bytes]) -> Headers:
    """Return the headers but those of these names."""
    gone = frozenset(names)
    return tuple(header for header in headers if header[0] not in gone)


def mutate_headers(headers: Headers, mutation: Mapping[str, Any]) -> Headers:
    """The headers after a `header_mutation` plugin: `delete` names, `update` and `add` names with values.

    `update` takes the place of what was there; `add` stands beside it.
    """
    updated, added = _header_pairs(mutation.get("update")), _header_pairs(mutation.get("add"))
    deleted = [str(name).lower().encode() for name in mutation.get("delete") or ()]
    remaining = drop_headers(headers, [*deleted, *(name for name, _ in updated)])
    return (*remaining, *updated, *added)


def _header_pairs(items: Any) -> Headers:
    return tuple(
        (str(item["name"]).lower().encode(), encode_header_value(str(item["value"]))) for item in items or ()
    )


def encode_header_value(text: str) -> bytes:
    """Return a text as a header may carry it: UTF-8, control characters as spaces."""
    return "".join(char if char.isprintable() else " " for char in text).encode("utf-8", "replace")


def _request_headers(applied: AppliedDecision, cache_status: str | None) -> Headers:
    named = {
        "x-selected-model": applied.model,
        "x-vsr-model": applied.model,
        "x-vsr-category": applied.category,
        "x-vsr-reasoning": "true" if applied.reasoning else "false",
        "x-vsr-reasoning-effort": applied.effort,
        "x-vsr-cache-status": cache_status,
    }
    return tuple((name.encode(), encode_header_value(value)) for name, value in named.items() if value)
