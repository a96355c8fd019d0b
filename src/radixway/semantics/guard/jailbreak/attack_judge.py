"""Tells attacks on the prompt from other texts: by known wordings in every disguise, and by an encoder."""

from collections.abc import Sequence
from pathlib import Path

from radixway.core.pipeline import AttackAssessment, GuardUnavailableError
from radixway.semantics.encoders import EncoderBusyError, EncoderError, EncoderService
from radixway.semantics.guard.jailbreak.attack_reader import (
    KINDS,
    THREAD_MIN_CHARS,
    AttackReader,
    AttackReading,
)
from radixway.semantics.guard.jailbreak.classifier_reader import ClassifierReader, published_models
from radixway.semantics.guard.jailbreak.jailbreak_head import HeadReader
from radixway.semantics.guard.jailbreak.patterns import (
    PatternFindings,
    compile_patterns,
    find_build_up,
    find_pasted_orders_steps,
    find_patterns_steps,
    join_last_turns,
)
from radixway.semantics.guard.jailbreak.spelling_folds import is_mixed
from radixway.semantics.guard.jailbreak.text_normalization import NormalizedView
from radixway.semantics.guard.passages import Speaker, TextPassage, replace_surrogates
from radixway.semantics.guard.step_executor import Steps, run_steps, steps_in_turn

NOTHING = AttackAssessment(0.0, {})
"""Assessment of a passage that is not judged."""
THRESHOLD = 0.7
"""The published one."""

_JUDGED: frozenset[Speaker] = frozenset({"user", "tool", "document"})
_MAX_READ_VIEWS = 2
_MAX_READ_VIEW_CHARS = 4096
_SHORTEST_VIEW_READ = 12
_OPEN = frozenset({"folded", "leetspeak", "spacing", "words reversed"})
"""Views that harmless texts have, too."""
_JOINED, _CHANGED = 0.7, 0.25
"""Share of words left where letters stood apart, and changed where digits stood for letters."""
_SUSPICIOUS = 0.4
"""Risk of a turn from which several together are read as one text."""


class DefaultAttackJudge:
    """A `pipeline.AttackJudge` that knows who speaks."""

    def __init__(
        self,
        encoders: EncoderService,
        *,
        threshold: float = THRESHOLD,
        reader: AttackReader | None = None,
    ) -> None:
        """`reader`: in place of the shipped head."""
        compile_patterns()  # a quarter of a second that no request waits for
        self.threshold = threshold
        self.reader: AttackReader = HeadReader(encoders) if reader is None else reader

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of attack that it can tell."""
        return tuple(dict.fromkeys([*KINDS, *self.reader.attack_kinds]))

    def describe(self) -> dict[str, object]:
        """Return what `/health` shows: what reads beside the known wordings, and what could not be loaded."""
        return self.reader.describe()

    async def judge(self, text: str) -> AttackAssessment:
        """Judge `text` as a user's. Raises GuardUnavailableError, and EncoderBusyError."""
        return await self._judge_text(replace_surrogates(text), data=False)

    async def judge_passages(self, passages: Sequence[TextPassage]) -> Sequence[AttackAssessment]:
        """Judge each of `passages`; the assistant's own words and the operator's are `NOTHING`.

        What only the last turns of a conversation make together counts as said in the last one. Raises
        GuardUnavailableError, and EncoderBusyError.
        """
        judged = [await self.judge_passage(passage) for passage in passages]
        turns = [index for index, passage in enumerate(passages) if passage.speaker == "user"]
        if len(turns) > 1:
            texts = [passages[index].text for index in turns]
            together = await self.judge_turns(texts, [judged[index] for index in turns])
            if together.risk > judged[turns[-1]].risk:
                judged[turns[-1]] = together
        return judged

    async def judge_passage(self, passage: TextPassage) -> AttackAssessment:
        """Judge `passage` alone. Raises GuardUnavailableError, and EncoderBusyError."""
        if passage.speaker not in _JUDGED:
            return NOTHING
        return await self._judge_text(passage.text, data=passage.speaker != "user")

    async def _judge_text(self, text: str, *, data: bool) -> AttackAssessment:
        if not text.strip():
            return NOTHING
        is_short = len(text) <= THREAD_MIN_CHARS
        found = await run_steps(find_patterns_steps(text, data=data), inline=is_short)
        if not data:
            found = await run_steps(find_pasted_orders_steps(text, found), inline=is_short)
        return _combine_attack(found, await self._read_views(text, found))

    async def _read_views(self, text: str, found: PatternFindings) -> list[AttackReading]:
        """Read the text and, unless wordings tell enough already, what disguises hid."""
        hits = found.confidences
        try:
            readings = [await self.reader.read_attack(text, hits)]
            if found.risk < self.threshold and readings[0].risk < self.threshold:
                for view in _disguised_views(text, found.views):
                    readings.append(await self.reader.read_attack(view.text, hits))
        except EncoderError as error:
            if found.risk >= self.threshold:
                return []
            if isinstance(error, EncoderBusyError):
                raise
            raise GuardUnavailableError(str(error)) from error
        return readings

    async def judge_turns(self, texts: Sequence[str], alone: Sequence[AttackAssessment]) -> AttackAssessment:
        """Judge the last of `texts`, a user's turns, as one text. `alone`: what each of them is by itself.

        The encoder reads it only where one of them was suspicious. Raises GuardUnavailableError, and
        EncoderBusyError.
        """
        joined = join_last_turns(texts)
        found = find_build_up(joined, texts)
        readings = []
        if found.risk < self.threshold and max(attack.risk for attack in alone) >= _SUSPICIOUS:
            readings = await self._read_views(joined, found)
        return _combine_attack(found, readings)


def build_attack_judge(
    encoders: EncoderService,
    *,
    threshold: float = THRESHOLD,
    model: Path | None = None,
    mapping: Path | None = None,
    models_dir: Path | None = None,
    in_part_from: int | None = None,
) -> DefaultAttackJudge:
    """Build the judge. `model`: a sequence classifier's directory; `mapping`: its labels, if they are apart.

    Without it the preferred one in `models_dir` reads, if there is one, else the shipped head. Known wordings
    are looked for in either case. What cannot be loaded is told in the log and in
    `DefaultAttackJudge.describe`.
    `in_part_from`: see `HeadReader`.
    """
    paths = [model] if model is not None else published_models(models_dir) if models_dir is not None else []
    reader: AttackReader = HeadReader(encoders, in_part_from=in_part_from)
    if paths:
        reader = ClassifierReader(encoders, paths, reader, mapping)
    return DefaultAttackJudge(encoders, threshold=threshold, reader=reader)


def pattern_attacks_steps(passages: Sequence[TextPassage]) -> Steps[list[AttackAssessment]]:
    """Judge each of `passages` without an encoder, by known wordings; linear in their length."""
    judged = yield from steps_in_turn(passages, _pattern_attack, lambda passage: len(passage.text))
    turns = [index for index, passage in enumerate(passages) if passage.speaker == "user"]
    if len(turns) > 1:
        texts = [passages[index].text for index in turns]
        together = _combine_attack(find_build_up(join_last_turns(texts), texts), [])
        judged[turns[-1]] = max(judged[turns[-1]], together, key=lambda attack: attack.risk)
    return judged


def _pattern_attack(passage: TextPassage) -> Steps[AttackAssessment]:
    if passage.speaker not in _JUDGED or not passage.text.strip():
        return NOTHING
    found = yield from find_patterns_steps(passage.text, data=passage.speaker != "user")
    if passage.speaker == "user":
        found = yield from find_pasted_orders_steps(passage.text, found)
    return _combine_attack(found, [])


def _combine_attack(found: PatternFindings, readings: Sequence[AttackReading]) -> AttackAssessment:
    risk = max([found.risk, *(reading.risk for reading in readings)])
    kinds: dict[str, float] = dict(found.kinds.items())
    for reading in readings:
        for kind, share in reading.kinds.items():
            kinds[kind] = max(kinds.get(kind, 0.0), share)
    if kinds and risk > 0:  # the likeliest kind is as likely as an attack at all
        likeliest = max(kinds, key=kinds.__getitem__)
        kinds[likeliest] = risk
    parts = readings[0].parts if readings else 1
    kinds = dict(sorted(kinds.items(), key=lambda item: -item[1]))
    return AttackAssessment(risk, kinds, tuple(found.hits), parts)


def _disguised_views(text: str, views: Sequence[NormalizedView]) -> list[NormalizedView]:
    """Return what disguises hid from the encoder; not what harmless digits or other scripts become."""
    worth = [
        view
        for view in views[1:]
        if not view.is_squashed
        and _SHORTEST_VIEW_READ <= len(view.text) <= _MAX_READ_VIEW_CHARS
        and (view.how not in _OPEN or _is_disguised(view.how, text, view.text))
    ]
    return worth[-_MAX_READ_VIEWS:]


def _is_disguised(how: str, text: str, undone: str) -> bool:
    if how == "folded":
        return is_mixed(text)
    before, after = text.split(), undone.split()
    if how == "spacing":
        return len(after) < _JOINED * len(before) or "-" in text
    changed = sum(one.lower() != other.lower() for one, other in zip(before, after, strict=False))
    return changed >= _CHANGED * len(after)
