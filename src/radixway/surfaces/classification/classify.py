"""`/api/v1/classify/*` and `/info/*`."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

import msgspec
from fastapi import APIRouter, Request

from radixway.surfaces.classification.bodies import check_text_given, check_texts_given, decode_body
from radixway.surfaces.classification.counts import BatchClassificationMetrics, Processing
from radixway.surfaces.classification.errors import ClassificationApiError, translate_errors
from radixway.surfaces.classification.leaving import cancel_on_disconnect
from radixway.surfaces.classification.opening import LazyClassificationService
from radixway.web import BadBodyError

if TYPE_CHECKING:
    from radixway.semantic.classification import ClassificationOptions, Task

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


_one = msgspec.json.Decoder(_TextBody)
_combined = msgspec.json.Decoder(_CombinedBody)
_batch = msgspec.json.Decoder(_BatchBody)


def classify_routes(room: LazyClassificationService, counts: BatchClassificationMetrics) -> APIRouter:
    """Intent, personal data, attacks; several of them, or many texts, at once; and what judges them."""
    router = APIRouter(tags=["classification"])

    async def ask(request: Request, task: Task) -> Answer:
        with translate_errors():
            asked = await decode_body(request, _one)
            text = check_text_given(asked.text)
            tasks = await room.tasks()
            options = _parse_options(asked.options, task)
            return await cancel_on_disconnect(request, tasks.classify_text(task, text, options))

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
        """Whether a text attacks the prompt that it becomes part of."""
        return await ask(request, "security")

    @router.post("/api/v1/classify/combined")
    async def combined(request: Request) -> Answer:
        """All three, or those in `tasks`; parts that nobody can answer are null and named."""
        with translate_errors():
            asked = await decode_body(request, _combined)
            text = check_text_given(asked.text)
            wanted = [_parse_task(name, f"tasks[{index}]") for index, name in enumerate(asked.tasks)]
            tasks = await room.tasks()
            options = _parse_options(asked.options, None)
            return await cancel_on_disconnect(
                request, tasks.classify_combined(text, tuple(wanted) or _TASKS, options)
            )

    @router.post("/api/v1/classify/batch")
    async def batch(request: Request) -> Answer:
        """One task, or `all`, of many texts; results in their order."""
        with translate_errors("UNIFIED_CLASSIFIER_UNAVAILABLE"):
            asked = await decode_body(request, _batch)
            task = _parse_task(asked.task_type, "task_type", also=("all",))
            if not asked.texts:
                check_texts_given(asked.texts, 0)
            tasks = await room.tasks()
            options = _parse_options(asked.options, None if task == "all" else task)
            limits = tasks.room.snapshot.section.api.batch_classification
            texts = check_texts_given(asked.texts, limits.max_batch_size)
            at_once = limits.max_concurrency if len(texts) > limits.concurrency_threshold else 1
            processing: Processing = "sequential" if at_once == 1 else "concurrent"
            counts.record_started(processing, len(texts))
            began = perf_counter()
            try:
                with translate_errors("UNIFIED_CLASSIFIER_UNAVAILABLE"):
                    told = await cancel_on_disconnect(
                        request, tasks.classify_batch(texts, task, options, at_once)
                    )
            except ClassificationApiError as error:
                counts.record_failed(processing, error.code)
                raise
            counts.record_finished(processing, len(texts), perf_counter() - began)
            return told

    @router.get("/info/models")
    async def models() -> Answer:
        """What judges texts here, and whether it is loaded."""
        with translate_errors():
            tasks = await room.tasks()
            from radixway.semantic.classification.info import describe_models

            return describe_models(tasks.room)

    @router.get("/info/classifier")
    async def classifier() -> Answer:
        """What can be asked, in which categories, under which thresholds."""
        with translate_errors():
            tasks = await room.tasks()
            from radixway.semantic.classification.info import describe_classifier

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
    """The options of one task, or of several by their names. Raises BadBodyError, which names the option."""
    from radixway.semantic.classification.options import ClassificationOptions

    if bytes(given).strip() == b"null":
        return ClassificationOptions()
    raw = bytes(given) if task is None else b'{"%s":%s}' % (task.encode(), bytes(given))
    try:
        return msgspec.json.decode(raw, type=ClassificationOptions)
    except msgspec.ValidationError as error:
        raise _option_error(str(error), task) from None


def _option_error(text: str, task: Task | None) -> BadBodyError:
    """msgspec's words about an option, with its place in the body."""
    message, _, place = text.partition(" - at `$")
    field = f"options{place.rstrip('`')}"
    if task is not None:
        field = field.replace(f"options.{task}", "options", 1)
    return BadBodyError(f"{field}: {message.replace('`', '')}", param=field)
