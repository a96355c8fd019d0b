"""The published questions: one task, several of one text, one of many texts; and how near texts are."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from radixway.semantics.classification.answers import (
    ClassificationOptions,
    Task,
    intent_answer,
    pii_answer,
    security_answer,
)
from radixway.semantics.classification.intent import HIGH_CONFIDENCE
from radixway.semantics.classification.service import ClassificationService, ClassifierUnavailableError

if TYPE_CHECKING:
    from radixway.semantics.encoders import TextEncoder

Answer = dict[str, Any]
T = TypeVar("T")
R = TypeVar("R")


class ClassificationTasks:
    """Runs classifications, times and counts them. Raises what the service raises, and UnknownTypes."""

    def __init__(self, room: ClassificationService) -> None:
        self.room = room
        self.answered = 0
        self.spent_s = 0.0
        """Total time for all texts answered, waiting included."""

    async def classify_text(self, task: Task, text: str, options: ClassificationOptions) -> Answer:
        """Answer one task of one text."""
        began = perf_counter()
        try:
            if task == "intent":
                intent = await self.room.read_intent(text)
                return intent_answer(intent, options.intent, _elapsed_ms(began))
            if task == "pii":
                found = await self.room.find_personal_data(text)
                assert self.room.finder is not None
                return pii_answer(text, found, self.room.finder, options.pii, _elapsed_ms(began))
            attack = await self.room.judge_attack(text)
            assert self.room.judge is not None
            return security_answer(attack, self.room.judge, options.security, _elapsed_ms(began))
        finally:
            self.answered += 1
            self.spent_s += perf_counter() - began

    async def classify_combined(
        self, text: str, tasks: Sequence[Task], options: ClassificationOptions
    ) -> Answer:
        """Answer several tasks of one text. Parts that are not there are named, and null.

        Raises ClassifierUnavailableError where none is there.
        """
        began = perf_counter()
        answers: dict[Task, Answer | None] = {}
        missing: dict[str, ClassifierUnavailableError] = {}
        with self.room.read_once():
            for task in tasks:
                try:
                    answers[task] = await self.classify_text(task, text, options)
                except ClassifierUnavailableError as error:
                    answers[task], missing[task] = None, error
        if len(missing) == len(answers):
            raise next(iter(missing.values()))
        combined: Answer = {task: _flatten_intent(answer) for task, answer in answers.items()}
        combined["overall_recommendation"] = _overall_answer(combined)
        if missing:
            combined["unavailable"] = {
                task: {"missing": error.missing, "message": str(error)} for task, error in missing.items()
            }
        return combined | {"total_processing_time_ms": _elapsed_ms(began)}

    async def classify_batch(
        self, texts: Sequence[str], task: Task | Literal["all"], options: ClassificationOptions, at_once: int
    ) -> Answer:
        """Answer one task, or all, of every text, `at_once` at a time; results in the order of `texts`."""
        began = perf_counter()

        async def one(text: str) -> Answer:
            if task == "all":
                return await self.classify_combined(text, ("intent", "pii", "security"), options)
            return _flatten_intent(await self.classify_text(task, text, options)) or {}

        with self.room.read_once():
            results = await _map_concurrently(texts, one, at_once)
        return {
            "results": results,
            "total_count": len(results),
            "processing_time_ms": _elapsed_ms(began),
            "statistics": _statistics(results, task),
        }


class TextSimilarity:
    """The published questions about likeness. Vectors have unit length: their product is the cosine."""

    def __init__(self, service: ClassificationService, at_once: int) -> None:
        """`at_once`: texts that may wait for the encoder at a time."""
        self._service = service
        self._at_once = at_once

    @property
    def encoder(self) -> TextEncoder | None:
        """Return the encoder, or None until it is loaded."""
        return self._service.encoders.encoder

    async def ready_encoder(self) -> TextEncoder:
        """Return the encoder, once it is loaded. Raises ClassifierUnavailableError."""
        await self._service.encode_text("a")
        encoder = self.encoder
        assert encoder is not None
        return encoder

    async def embed_texts(self, texts: Sequence[str]) -> Answer:
        """Return a vector for each text."""
        began = perf_counter()

        async def one(text: str) -> Answer:
            started = perf_counter()
            encoding = await self._service.encode_text(text)
            return {
                "text": text,
                "embedding": encoding.vector.tolist(),
                "dimension": len(encoding.vector),
                "model_used": self._model_name(),
                "processing_time_ms": _elapsed_ms(started),
            }

        with self._service.read_once():
            made = await _map_concurrently(texts, one, self._at_once)
        total = _elapsed_ms(began)
        return {
            "embeddings": made,
            "total_count": len(made),
            "total_processing_time_ms": total,
            "avg_processing_time_ms": total / len(made),
        }

    async def compare_texts(self, one: str, other: str) -> Answer:
        """Return the cosine of two texts."""
        began = perf_counter()
        (near,) = await self._cosines(one, [other])
        return {
            "model_used": self._model_name(),
            "similarity": near,
            "processing_time_ms": _elapsed_ms(began),
        }

    async def rank_candidates(self, query: str, candidates: Sequence[str], top_k: int) -> Answer:
        """Return the candidates nearest to the query, nearest first; 0: all of them."""
        began = perf_counter()
        near = await self._cosines(query, candidates)
        order = sorted(range(len(near)), key=lambda index: -near[index])[: top_k or None]
        return {
            "matches": [
                {"index": index, "similarity": near[index], "text": candidates[index]} for index in order
            ],
            "total_candidates": len(candidates),
            "model_used": self._model_name(),
            "processing_time_ms": _elapsed_ms(began),
        }

    async def _cosines(self, query: str, candidates: Sequence[str]) -> list[float]:
        with self._service.read_once():
            first, *others = await _map_concurrently(
                [query, *candidates], self._service.encode_text, self._at_once
            )
        return [float(first.vector @ other.vector) for other in others]

    def _model_name(self) -> str:
        encoder = self.encoder
        return "" if encoder is None else encoder.id


def _elapsed_ms(began: float) -> int:
    return round((perf_counter() - began) * 1e3)


async def _map_concurrently(items: Sequence[T], work: Callable[[T], Awaitable[R]], at_once: int) -> list[R]:
    """`work` of every item, in their order, `at_once` at a time. The first failure ends the others."""
    places = asyncio.Semaphore(at_once)

    async def one(item: T) -> R:
        async with places:
            return await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(one(item)) for item in items]
    except BaseExceptionGroup as group_error:
        raise group_error.exceptions[0] from None
    return [task.result() for task in running]


def _flatten_intent(answer: Answer | None) -> Answer | None:
    """Return an intent without the extra nesting of single-task answers."""
    if answer is None or "classification" not in answer:
        return answer
    rest = {name: value for name, value in answer.items() if name != "classification"}
    return {**answer["classification"], **rest}


def _overall_answer(combined: Answer) -> Answer:
    intent, pii, security = (combined.get(task) for task in ("intent", "pii", "security"))
    blocked = (
        bool(pii and pii["has_pii"])
        or bool(security and security["is_jailbreak"])
        or bool(intent and intent["routing_decision"] == "blocked_by_rule")
    )
    overall: Answer = {
        "action": "block" if blocked else "route",
        "based_on": [task for task in ("intent", "pii", "security") if combined.get(task)],
    }
    if intent is not None:
        overall |= {
            "target_model": None if blocked else intent["recommended_model"],
            "confidence": intent["confidence"],
        }
    return overall


def _statistics(results: Sequence[Answer], task: str) -> Answer:
    if task == "pii":
        types = Counter(entity["type"] for result in results for entity in result["entities"])
        return {
            "flagged_count": sum(result["has_pii"] for result in results),
            "entity_type_distribution": dict(types),
        }
    if task == "security":
        return {
            "flagged_count": sum(result["is_jailbreak"] for result in results),
            "avg_risk_score": sum(result["risk_score"] for result in results) / len(results),
        }
    intents = [intent for result in results if (intent := result.get("intent") if task == "all" else result)]
    if not intents:
        return {}
    return {
        "category_distribution": dict(Counter(intent["category"] for intent in intents)),
        "avg_confidence": sum(intent["confidence"] for intent in intents) / len(intents),
        "low_confidence_count": sum(intent["confidence"] < HIGH_CONFIDENCE for intent in intents),
    }
