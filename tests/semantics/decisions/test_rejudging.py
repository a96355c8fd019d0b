"""Requests judged again by their signals: what holds under other rules, and what only a text could tell."""

import asyncio

import pytest

from radixway.core.config.semantic import FeedbackConfig, SemanticConfig
from radixway.semantics.decisions import MissingSignals
from radixway.semantics.decisions.decision_plan import SelectionPreferences, make_plan
from radixway.semantics.decisions.detection import BlockCheck, BlockedDecision
from radixway.semantics.decisions.dry_run import every_model_is_ready
from radixway.semantics.decisions.replay import SignalReplay, recorded_outcome, replay_decision
from radixway.semantics.decisions.score_feedback import ScoreFeedback
from radixway.semantics.decisions.signal_reader import SignalReader
from radixway.semantics.decisions.snapshot import compile_snapshot
from radixway.semantics.decisions.verdict import judge_blocks, judge_signals
from radixway.semantics.signals.question import RequestQuestion

TREE = {
    "default_model": "small",
    "keyword_rules": [{"category": "math", "keywords": ["theorem"]}],
    "regex_rules": [{"name": "card", "pattern": r"\d{4}-\d{4}", "action": "block"}],
    "categories": [
        {"name": "math", "model_scores": [{"model": "big", "score": 1.0, "use_reasoning": True}]},
    ],
}
FEEDBACK = ScoreFeedback(FeedbackConfig())


async def snapshot_of(**more):
    return await compile_snapshot(SemanticConfig.model_validate(TREE | more), None, None)


async def recorded(snapshot, text, *, named=False):
    """What a journal would have of it."""
    rules, question = snapshot.rules, RequestQuestion(text, text)
    if named:
        signals, verdict, failed = await SignalReader(None).read_signals(
            snapshot, question, lambda known: judge_blocks(rules, known)
        )
        return BlockCheck(snapshot, signals, verdict, "small", tuple(failed))
    signals, verdict, _ = await SignalReader(None).read_signals(
        snapshot, question, lambda known: judge_signals(rules, known)
    )
    if verdict.action == "block":
        return BlockedDecision(snapshot, signals, verdict)
    wish = SelectionPreferences("best", "", 256)
    return make_plan(snapshot, question, signals, verdict, wish, every_model_is_ready, FEEDBACK)


async def again(entry, **more):
    new = await snapshot_of(**more)
    return replay_decision(entry, SignalReplay(entry.snapshot.section, new), every_model_is_ready, FEEDBACK)


async def test_the_same_rules_say_the_same():
    snapshot = await snapshot_of()
    for text in ("a theorem", "hello", "1234-5678"):
        for named in (False, True):
            entry = await recorded(snapshot, text, named=named)
            assert await again(entry) == recorded_outcome(entry, every_model_is_ready, FEEDBACK)


async def test_another_consequence_of_the_same_reading_is_known():
    entry = await recorded(await snapshot_of(), "theorem 1234-5678")
    assert recorded_outcome(entry, every_model_is_ready, FEEDBACK).blocked
    plain = {"regex_rules": [{"name": "card", "pattern": r"\d{4}-\d{4}", "action": "log"}]}
    assert isinstance(
        await again(entry, **plain), MissingSignals
    )  # the block came first: words were not read
    routed = [{"name": "card", "pattern": r"\d{4}-\d{4}", "action": "route", "models": ["careful"]}]
    outcome = await again(entry, regex_rules=routed)
    assert (outcome.model, outcome.rule, outcome.blocked) == ("careful", "card", False)


@pytest.mark.parametrize(
    ("more", "kinds"),
    [
        ({"keyword_rules": [{"category": "math", "keywords": ["lemma"]}]}, {"keyword"}),
        ({"regex_rules": [{"name": "card", "pattern": "theorem", "action": "block"}]}, {"regex"}),
    ],
)
async def test_another_reading_is_not_known_without_the_text(more, kinds):
    entry = await recorded(await snapshot_of(), "a theorem")
    missing = await again(entry, **more)
    assert isinstance(missing, MissingSignals) and missing.kinds == kinds


async def test_a_rule_that_is_gone_and_models_that_are_others_are_known():
    entry = await recorded(await snapshot_of(), "a theorem")
    outcome = await again(entry, regex_rules=[])
    assert outcome.model == "big"
    cheaper = [{"name": "math", "model_scores": [{"model": "small", "score": 1.0, "use_reasoning": False}]}]
    outcome = await again(entry, categories=cheaper)
    assert (outcome.model, outcome.reasoning, outcome.category) == ("small", False, "math")


async def test_a_request_that_names_its_model_is_judged_by_what_blocks_alone():
    entry = await recorded(await snapshot_of(), "1234-5678", named=True)
    assert recorded_outcome(entry, every_model_is_ready, FEEDBACK).blocked
    unblocked = await again(entry, regex_rules=[{"name": "card", "pattern": r"\d{4}-\d{4}", "action": "log"}])
    assert (unblocked.blocked, unblocked.model) == (False, "small")


def test_scores_are_not_drawn():
    exploring = ScoreFeedback(FeedbackConfig(explore=True))

    async def outcomes():
        snapshot = await snapshot_of(
            categories=[
                {
                    "name": "math",
                    "model_scores": [
                        {"model": "big", "score": 0.52, "use_reasoning": False},
                        {"model": "other", "score": 0.5, "use_reasoning": False},
                    ],
                }
            ]
        )
        entry = await recorded(snapshot, "a theorem")
        by = SignalReplay(snapshot.section, snapshot)
        return {replay_decision(entry, by, every_model_is_ready, exploring).model for _ in range(50)}

    assert asyncio.run(outcomes()) == {"big"}
