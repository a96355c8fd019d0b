"""Personal data of a request replaced by stars or placeholders, before a model sees it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from radixway.config.guard import MaskStyle
from radixway.guard.placeholders import Vault, mask_of, replaced
from radixway.guard.policy import Located, PiiVerdict
from radixway.guard.texts import Passage, Place


def hide(
    passages: Sequence[Passage], found: Iterable[Located], verdict: PiiVerdict, style: MaskStyle
) -> tuple[dict[Place, str], Vault | None]:
    """New texts for the passages that hold what `verdict` hides, and what the placeholders in them stand for.

    `passages`: all that the model will see.
    """
    vault = Vault(passage.text for passage in passages) if verdict.redacted else None
    spans: dict[Place, list[tuple[int, int, str]]] = {}
    texts: dict[Place, str] = {}
    for each in found:
        found_here, passage = each.found, each.passage
        if found_here.type not in verdict.edits:
            continue
        text = passage.text[found_here.begin : found_here.end]
        if vault is not None and found_here.type in verdict.redacted:
            new = vault.put(found_here, text, passage.place)
        else:
            new = mask_of(found_here.type, text, style)
        spans.setdefault(passage.place, []).append((found_here.begin, found_here.end, new))
        texts[passage.place] = passage.text
    return {place: replaced(texts[place], own) for place, own in spans.items()}, vault
