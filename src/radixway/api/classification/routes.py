"""`/api/v1/classify/*`, `/info/*`, `/config/system-prompts`, and `/api/v1`, which lists all paths."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute

from radixway._version import __version__
from radixway.api.admin_access import AdminAccess
from radixway.api.classification.embeddings import embedding_routes
from radixway.api.classification.errors import (
    ClassificationApiError,
    check_text_given,
    check_texts_given,
    translate_errors,
)
from radixway.api.classification.lazy_service import LazyClassificationService
from radixway.api.client_requests import decode_body, run_while_connected
from radixway.core.http import BadBodyError, LazyRouter
from radixway.core.telemetry import MetricsRegistry

if TYPE_CHECKING:
    from radixway.semantics.classification import ClassificationOptions, Task
    from radixway.semantics.decisions.service import SemanticService


Processing = Literal["sequential", "concurrent"]

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200)
_RANGES = ((1, "1"), (5, "2-5"), (10, "6-10"), (20, "11-20"), (50, "21-50"))
"""The published ranges: largest size and label; larger ones are `50+`."""


class BatchClassificationMetrics:
    """Counted once per batch."""

    def __init__(self, metrics: MetricsRegistry) -> None:
        self._requests = metrics.counter(
            "batch_classification_requests", "Batches of texts", "processing_type"
        )
        self._texts = metrics.counter("batch_classification_texts", "Texts in batches", "processing_type")
        self._errors = metrics.counter(
            "batch_classification_errors",
            "Batches that were refused or failed, by the error's code",
            *("processing_type", "error_type"),
        )
        self._durations = metrics.histogram(
            "batch_classification_duration_seconds",
            "Seconds that a batch took",
            _SECONDS,
            *("processing_type", "batch_size_range"),
        )
        self._sizes = metrics.histogram(
            "batch_classification_size_distribution", "Texts in a batch", _SIZES, "processing_type"
        )

    def record_started(self, processing: Processing, size: int) -> None:
        """Count a batch of `size` texts."""
        self._requests(processing).inc()
        self._texts(processing).inc(size)
        self._sizes(processing).observe(size)

    def record_finished(self, processing: Processing, size: int, seconds: float) -> None:
        """Observe the `seconds` that a batch of `size` texts took."""
        label = next((label for largest, label in _RANGES if size <= largest), "50+")
        self._durations(processing, label).observe(seconds)

    def record_failed(self, processing: Processing, code: str) -> None:
        """Count a failed batch by the error's `code`."""
        self._errors(processing, code).inc()


_TASKS: tuple[Task, ...] = ("intent", "pii", "security")
Answer = dict[str, Any]


class _TextBody(msgspec.Struct):
    text: str | None = None
    options: msgspec.Raw = msgspec.Raw(b"null")


class _CombinedBody(msgspec.Struct):
    text: str | None = None
    tasks: list[str] = []
    options: msgspec.Raw = msgspec.Raw(b"null")


class _BatchBody(msgspec.Struct):
    texts: list[str] | None = None
    task_type: str = "intent"
    options: msgspec.Raw = msgspec.Raw(b"null")


def classify_routes(service: LazyClassificationService, counts: BatchClassificationMetrics) -> APIRouter:
    """Build intent, personal data, attacks, combinations and batches of them; `counts` counts batches."""
    router = LazyRouter(tags=["classification"])

    async def ask(request: Request, task: Task) -> Answer:
        with translate_errors():
            body = await decode_body(request, _TextBody)
            text = check_text_given(body.text)
            tasks = await service.tasks()
            options = _parse_options(body.options, task)
            return await run_while_connected(request, tasks.classify_text(task, text, options))

    @router.post("/api/v1/classify/intent")
    async def intent(request: Request) -> Answer:
        """The domain of a text, the signals that match, and the model that `auto` would be answered by."""
        return await ask(request, "intent")

    @router.post("/api/v1/classify/pii")
    async def pii(request: Request) -> Answer:
        """Personal data in a text, and the text without it."""
        return await ask(request, "pii")

    @router.post("/api/v1/classify/security")
    async def security(request: Request) -> Answer:
        """Say whether a text attacks the prompt that it becomes part of."""
        return await ask(request, "security")

    @router.post("/api/v1/classify/combined")
    async def combined(request: Request) -> Answer:
        """Run all three tasks, or those in `tasks`; parts that cannot be answered are null and named."""
        with translate_errors():
            body = await decode_body(request, _CombinedBody)
            text = check_text_given(body.text)
            wanted = [_parse_task(name, f"tasks[{index}]") for index, name in enumerate(body.tasks)]
            tasks = await service.tasks()
            options = _parse_options(body.options, None)
            return await run_while_connected(
                request, tasks.classify_combined(text, tuple(wanted) or _TASKS, options)
            )

    @router.post("/api/v1/classify/batch")
    async def batch(request: Request) -> Answer:
        """Run one task, or `all`, on many texts; results keep their order."""
        with translate_errors("UNIFIED_CLASSIFIER_UNAVAILABLE"):
            body = await decode_body(request, _BatchBody)
            task = _parse_task(body.task_type, "task_type", also=("all",))
            if not body.texts:
                check_texts_given(body.texts, 0)
            tasks = await service.tasks()
            options = _parse_options(body.options, None if task == "all" else task)
            limits = tasks.room.snapshot.section.api.batch_classification
            texts = check_texts_given(body.texts, limits.max_batch_size)
            at_once = limits.max_concurrency if len(texts) > limits.concurrency_threshold else 1
            processing: Processing = "sequential" if at_once == 1 else "concurrent"
            counts.record_started(processing, len(texts))
            began = perf_counter()
            try:
                with translate_errors("UNIFIED_CLASSIFIER_UNAVAILABLE"):
                    results = await run_while_connected(
                        request, tasks.classify_batch(texts, task, options, at_once)
                    )
            except ClassificationApiError as error:
                counts.record_failed(processing, error.code)
                raise
            counts.record_finished(processing, len(texts), perf_counter() - began)
            return results

    @router.get("/info/models")
    async def models() -> Answer:
        """Describe the classifiers, and whether they are loaded."""
        with translate_errors():
            tasks = await service.tasks()
            from radixway.semantics.classification.model_info import describe_models

            return describe_models(tasks.room)

    @router.get("/info/classifier")
    async def classifier() -> Answer:
        """List the tasks, categories and thresholds."""
        with translate_errors():
            tasks = await service.tasks()
            from radixway.semantics.classification.model_info import describe_classifier

            return describe_classifier(tasks)

    return router


def _parse_task(name: str, field: str, also: tuple[str, ...] = ()) -> Any:
    known = (*_TASKS, *also)
    if name not in known:
        raise ClassificationApiError(
            f"{field} must be one of {', '.join(known)}", param=field, code="INVALID_TASK_TYPE"
        )
    return name


def _parse_options(given: msgspec.Raw, task: Task | None) -> ClassificationOptions:
    """Return the options of one task, or of several by name. Raises BadBodyError naming the option."""
    from radixway.semantics.classification.answers import ClassificationOptions

    if bytes(given).strip() == b"null":
        return ClassificationOptions()
    raw = bytes(given) if task is None else b'{"%s":%s}' % (task.encode(), bytes(given))
    try:
        return msgspec.json.decode(raw, type=ClassificationOptions)
    except msgspec.ValidationError as error:
        raise _option_error(str(error), task) from None


def _option_error(text: str, task: Task | None) -> BadBodyError:
    message, _, place = text.partition(" - at `$")
    field = f"options{place.rstrip('`')}"
    if task is not None:
        field = field.replace(f"options.{task}", "options", 1)
    return BadBodyError(f"{field}: {message.replace('`', '')}", param=field)


class _SwitchBody(msgspec.Struct, forbid_unknown_fields=True):
    category: str | None = None
    enabled: bool | None = None
    mode: Literal["replace", "insert", "off"] | None = None


def prompt_routes(semantic: SemanticService | None, access: AdminAccess) -> APIRouter:
    """Build them for holders of the admin key; `semantic` None: there are no prompts to switch."""
    router = LazyRouter(tags=["classification"], dependencies=[Depends(access)])

    @router.get("/config/system-prompts")
    async def prompts() -> dict[str, Any]:
        """List every category with its prompt, whether it is on, and its mode."""
        return {"system_prompts": _prompt_objects(semantic)}

    @router.put("/config/system-prompts")
    async def switch(request: Request) -> dict[str, Any]:
        """Switch `category`, or all, on or off (`enabled`) or to another `mode`, until the next reload."""
        with translate_errors():
            body = await decode_body(request, _SwitchBody)
        if body.enabled is None and body.mode is None:
            raise ClassificationApiError("either enabled or mode field must be given", param="enabled")
        if semantic is None:
            raise ClassificationApiError(
                "semantic is not configured: no prompts are given to models",
                status=409,
                code="SEMANTIC_NOT_CONFIGURED",
            )
        from radixway.semantics.decisions.system_prompts import switch_prompts

        try:
            semantic.snapshots.replace_current(
                lambda current: switch_prompts(current, body.category, body.enabled, body.mode)
            )
        except KeyError:
            raise ClassificationApiError(
                "there is no such category", param="category", status=404, code="CATEGORY_NOT_FOUND"
            ) from None
        return {"system_prompts": _prompt_objects(semantic)}

    return router


def _prompt_objects(semantic: SemanticService | None) -> list[dict[str, Any]]:
    if semantic is None:
        return []
    from radixway.semantics.decisions.system_prompts import describe_prompts

    return describe_prompts(semantic.snapshots.current)


def classification_routes(
    service: LazyClassificationService,
    semantic: SemanticService | None,
    access: AdminAccess,
    metrics: MetricsRegistry,
) -> list[APIRouter]:
    """Build all routers of the API. `semantic`: the gateway's, whose prompts `access` may switch."""
    counts = BatchClassificationMetrics(metrics)
    routers = [classify_routes(service, counts), embedding_routes(service), prompt_routes(semantic, access)]
    return [*routers, _overview_routes(routers)]


def _overview_routes(routers: Iterable[APIRouter]) -> APIRouter:
    router = LazyRouter(tags=["classification"])
    routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]

    @router.get("/api/v1")
    async def overview() -> dict[str, Any]:
        """List every path of this API with its method and a sentence."""
        endpoints = [
            {"path": route.path, "method": method, "description": route.description.partition("\n")[0]}
            for route in routes
            for method in sorted(route.methods or ())
        ]
        links = {"openapi": "/openapi.json", "docs": "/docs", "models": "/info/models"}
        return {"service": "Radixway", "version": __version__, "endpoints": endpoints, "links": links}

    return router
