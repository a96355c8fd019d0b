"""Personal data of a request replaced by stars or placeholders, before a model sees it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from radixway.config.guard import MaskStyle
from radixway.guard.placeholders import PlaceholderVault, mask_text, replace_spans
from radixway.guard.policy import LocatedPersonalData, PiiVerdict
from radixway.guard.texts import Place, TextPassage


def redact_passages(
    passages: Sequence[TextPassage],
    found: Iterable[LocatedPersonalData],
    verdict: PiiVerdict,
    style: MaskStyle,
) -> tuple[dict[Place, str], PlaceholderVault | None]:
    """New texts for the passages that hold what `verdict` hides, and what the placeholders in them stand for.

    `passages`: all that the model will see.
    """
    vault = PlaceholderVault(passage.text for passage in passages) if verdict.redacted else None
    spans: dict[Place, list[tuple[int, int, str]]] = {}
    texts: dict[Place, str] = {}
    for each in found:
        found_here, passage = each.found, each.passage
        if found_here.type not in verdict.edits:
            continue
        text = passage.text[found_here.begin : found_here.end]
        if vault is not None and found_here.type in verdict.redacted:
            new = vault.add_placeholder(found_here, text, passage.place)
        else:
            new = mask_text(found_here.type, text, style)
        spans.setdefault(passage.place, []).append((found_here.begin, found_here.end, new))
        texts[passage.place] = passage.text
    return {place: replace_spans(texts[place], own) for place, own in spans.items()}, vault
