"""What a journal says of a request, and what classifiers say of its text, as cards."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from nicegui import ui

from radixway.console.components import (
    draw_card,
    draw_chip,
    draw_empty,
    draw_facts,
    draw_json,
    draw_losing_rules,
    draw_table,
)
from radixway.console.page import PageVisit
from radixway.core.config.tenants import format_cost


class MarkedPiece(NamedTuple):
    """A part of a text, and what it is; None: nothing particular."""

    text: str
    type: str | None
    confidence: float = 0.0


def split_marked(text: str, entities: Sequence[Mapping[str, Any]]) -> Iterator[MarkedPiece]:
    """The whole text, in order. Of findings that overlap the first one counts."""
    at = 0
    for entity in sorted(entities, key=lambda each: each["start_position"]):
        begin, end = entity["start_position"], entity["end_position"]
        if begin < at or end <= begin:
            continue
        if begin > at:
            yield MarkedPiece(text[at:begin], None)
        yield MarkedPiece(text[begin:end], str(entity["type"]), float(entity["confidence"]))
        at = end
    if at < len(text):
        yield MarkedPiece(text[at:], None)


def draw_marked(text: str, entities: Sequence[Mapping[str, Any]]) -> None:
    """The text, its findings in colours and with their types."""
    with ui.element("div").classes("rw-text rw-marked"):
        for piece in split_marked(text, entities):
            if piece.type is None:
                ui.label(piece.text).classes("rw-piece")
                continue
            with ui.element("mark").props(f'title="{piece.confidence:.2f}"'):
                ui.label(piece.text).classes("rw-piece")
                ui.label(piece.type).classes("rw-mark-type")


Step = Mapping[str, Any]


def draw_findings(
    visit: PageVisit,
    prompt: str,
    journal: Sequence[Step],
    model: str | None,
    found: Any,
    sent: Any = None,
) -> None:
    """Draw all that is known of a request.

    `prompt`: as it was asked, which may not be what stands in the form by now. `model`: the one that
    was chosen. `found`: what classifiers say of the prompt, None where there are none. `sent`: the body that
    went to the worker.
    """
    steps = {str(step["step"]): step for step in journal}  # the last of each kind
    with ui.element("div").classes("rw-grid wide"):
        _draw_decision(visit, steps, model, found)
        _draw_safety(visit, prompt, found, steps)
        _draw_worker(visit, steps)
        _draw_tools_and_cache(visit, steps)
    with ui.element("div").classes("rw-card"):
        for name, tree in (("journal", journal), ("sent", sent)):
            if tree is not None:
                with ui.expansion(visit.say(f"playground.{name}")).classes("rw-more").props("dense"):
                    draw_json(tree, "pre", "rw-code")


def _draw_decision(visit: PageVisit, steps: Mapping[str, Step], model: str | None, text: Any) -> None:
    """Category, model, and every signal with what it took. `text`: what classifiers say of the prompt."""
    say = visit.say
    decision = steps.get("semantic", {})
    intent = (text or {}).get("intent") or {}
    with draw_card(say("playground.decision")):
        with ui.element("div").classes("rw-row"):
            category = (decision if "semantic" in steps else intent).get("category")
            draw_chip(say("playground.category", category=category or "–"), "good" if category else "")
            if decision.get("blocked"):
                draw_chip(say("playground.blocked"), "bad")
            if decision.get("reasoning") is not None:
                draw_chip(say("playground.thinks" if decision["reasoning"] else "playground.thinks_not"), "")
        rows = [(say("playground.model"), model or "–")]
        if decision.get("reason"):
            why = " · ".join(filter(None, (decision["reason"], decision.get("choice"))))
            rows.append((say("playground.why"), why))
        elif "semantic" not in steps:
            rows.append((say("playground.why"), say("playground.not_judged")))
        if decision.get("rule"):
            rows.append((say("playground.rule"), decision["rule"]))
        confidence = decision.get("confidence", intent.get("confidence"))
        if category is not None and confidence is not None:
            rows.append((say("playground.confidence"), f"{confidence:.2f}"))
        draw_facts(rows)
        signals = decision.get("signals") or intent.get("matched_signals") or []
        if isinstance(signals, list) and signals:
            _draw_signals(visit, [signal for signal in signals if isinstance(signal, dict)])
        draw_losing_rules(say, decision.get("lost") or [])
        candidates = decision.get("candidates") or []
        if candidates:
            heads = ("model", "score", "cost", "latency")
            table = [
                (
                    candidate["model"],
                    f"{candidate['score']:.3f}",
                    format_cost(candidate["cost"]),
                    f"{candidate['latency_s'] * 1e3:.0f} ms",
                )
                for candidate in candidates
            ]
            draw_table([say(f"playground.candidate.{name}") for name in heads], table)


def _draw_signals(visit: PageVisit, signals: Sequence[Mapping[str, Any]]) -> None:
    say = visit.say
    rows = [
        (
            f"{signal.get('kind', '')}{':' if signal.get('name') else ''}{signal.get('name', '')}",
            _format_value(signal.get("value")),
            "✓" if signal.get("matched", True) else "–",
            f"{signal['confidence']:.2f}" if "confidence" in signal else "",
            f"{signal['latency_ms']:.2f}" if "latency_ms" in signal else "",
        )
        for signal in signals
    ]
    heads = ("signal", "value", "matched", "confidence", "took")
    draw_table([say(f"playground.signal.{name}") for name in heads], rows)


def _draw_safety(visit: PageVisit, prompt: str, text: Any, steps: Mapping[str, Step]) -> None:
    """Personal data where it stands, and whether the prompt is an attack."""
    say = visit.say
    with draw_card(say("playground.safety")):
        if text is None:
            draw_empty(say("playground.no_classifiers"))
            return
        pii, security = text.get("pii") or {}, text.get("security") or {}
        draw_marked(prompt, pii.get("entities", []))
        with ui.element("div").classes("rw-row"):
            found = pii.get("entities", [])
            verdict = say("playground.pii", count=len(found)) if found else say("playground.no_pii")
            draw_chip(verdict, "warn" if found else "good")
            if security:
                risk = float(security["risk_score"])
                bad = bool(security["is_jailbreak"])
                draw_chip(say("playground.risk", risk=f"{risk:.2f}"), "bad" if bad else "good")
        rows = [
            (say(f"playground.{key}"), ", ".join(map(str, security[field])))
            for key, field in (("patterns", "patterns_detected"), ("attack", "detection_types"))
            if security.get(field)
        ]
        if "guard_jailbreak" in steps:
            data = steps["guard_jailbreak"]
            rows.append((say("playground.guard"), f"{data['action']}: {data['type']} · {data['where']}"))
        if "guard_clearing" in steps:
            data = steps["guard_clearing"]
            rows.append((say("playground.guard"), f"{data['action']}: {', '.join(data.get('denied') or ())}"))
        draw_facts(rows)


def _draw_tools_and_cache(visit: PageVisit, steps: Mapping[str, Step]) -> None:
    """Draw the cache's answer and the offered tools of `steps`."""
    say = visit.say
    with draw_card(say("playground.cache_and_tools")):
        rows = []
        cache = steps.get("semantic_cache")
        if cache is None:
            rows.append((say("playground.cache"), say("playground.cache.off")))
        else:
            likeness = f" · {cache['similarity']}" if "similarity" in cache else ""
            why = f" · {cache['reason']}" if cache.get("reason") else ""
            rows.append((say("playground.cache"), f"{cache['outcome']}{likeness}{why}"))
        tools = steps.get("tools")
        if tools is not None:
            named = ", ".join(tools["offered"]) or "–"
            rows.append(
                (say("playground.tools_selected"), f"{named} ({len(tools['offered'])}/{tools['of']})")
            )
            rows.append((say("playground.tools_saved"), str(tools["tokens_saved"])))
        else:
            rows.append((say("playground.tools_selected"), say("playground.tools.all")))
        draw_facts(rows)


def _draw_worker(visit: PageVisit, steps: Mapping[str, Step]) -> None:
    """Draw the chosen worker of `steps`, and each candidate's cost."""
    say = visit.say
    chosen = steps.get("select")
    with draw_card(say("playground.worker")):
        if chosen is None:
            draw_empty(say("playground.no_worker"))
            return
        rows = [(say("playground.worker.chosen"), chosen["worker"])]
        rows.append((say("playground.policy"), chosen["policy"]))
        if chosen.get("reason"):
            rows.append((say("playground.why"), chosen["reason"]))
        if "expected_cached_tokens" in chosen:
            rows.append((say("playground.expected_cached"), str(chosen["expected_cached_tokens"])))
        draw_facts(rows)
        candidates = chosen["candidates"]
        terms = list(dict.fromkeys(term for costs in candidates.values() for term in costs))
        draw_table(
            [say("playground.worker"), *terms],
            [(name, *(_format_value(cost.get(term)) for term in terms)) for name, cost in candidates.items()],
            marked=[name == chosen["worker"] for name in candidates],
        )


def _format_value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "–" if value is None else str(value)
