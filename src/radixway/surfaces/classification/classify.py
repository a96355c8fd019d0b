"""`/api/v1/classify/*` and `/info/*`."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

import msgspec
from fastapi import APIRouter, Request

from radixway.surfaces.classification.bodies import body_of, check_text, check_texts
from radixway.surfaces.classification.counts import BatchCounts, Processing
from radixway.surfaces.classification.errors import ApiError, in_this_shape
from radixway.surfaces.classification.leaving import while_connected
from radixway.surfaces.classification.opening import LazyRoom
from radixway.web import BadBody

if TYPE_CHECKING:
    from radixway.semantic.classification import Options, Task

_TASKS: tuple[Task, ...] = ("intent", "pii", "security")
Answer = dict[str, Any]


class _One(msgspec.Struct):
    text: str | None = None
    options: msgspec.Raw = msgspec.Raw(b"null")


class _Combined(msgspec.Struct):
    text: str | None = None
    tasks: list[str] = []
    options: msgspec.Raw = msgspec.Raw(b"null")


class _Batch(msgspec.Struct):
    texts: list[str] | None = None
    task_type: str = "intent"
    options: msgspec.Raw = msgspec.Raw(b"null")


_one = msgspec.json.Decoder(_One)
_combined = msgspec.json.Decoder(_Combined)
_batch = msgspec.json.Decoder(_Batch)


def classify_routes(room: LazyRoom, counts: BatchCounts) -> APIRouter:
    """Intent, personal data, attacks; several of them, or many texts, at once; and what judges them."""
    router = APIRouter(tags=["classification"])

    async def ask(request: Request, task: Task) -> Answer:
        with in_this_shape():
            asked = await body_of(request, _one)
            text = check_text(asked.text)
            tasks = await room.tasks()
            options = _options(asked.options, task)
            return await while_connected(request, tasks.ask(task, text, options))

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
        with in_this_shape():
            asked = await body_of(request, _combined)
            text = check_text(asked.text)
            wanted = [_task(name, f"tasks[{index}]") for index, name in enumerate(asked.tasks)]
            tasks = await room.tasks()
            options = _options(asked.options, None)
            return await while_connected(request, tasks.combined(text, tuple(wanted) or _TASKS, options))

    @router.post("/api/v1/classify/batch")
    async def batch(request: Request) -> Answer:
        """One task, or `all`, of many texts; results in their order."""
        with in_this_shape("UNIFIED_CLASSIFIER_UNAVAILABLE"):
            asked = await body_of(request, _batch)
            task = _task(asked.task_type, "task_type", also=("all",))
            if not asked.texts:
                check_texts(asked.texts, 0)
            tasks = await room.tasks()
            options = _options(asked.options, None if task == "all" else task)
            limits = tasks.room.snapshot.section.api.batch_classification
            texts = check_texts(asked.texts, limits.max_batch_size)
            at_once = limits.max_concurrency if len(texts) > limits.concurrency_threshold else 1
            processing: Processing = "sequential" if at_once == 1 else "concurrent"
            counts.began(processing, len(texts))
            began = perf_counter()
            try:
                with in_this_shape("UNIFIED_CLASSIFIER_UNAVAILABLE"):
                    told = await while_connected(request, tasks.batch(texts, task, options, at_once))
            except ApiError as error:
                counts.failed(processing, error.code)
                raise
            counts.ended(processing, len(texts), perf_counter() - began)
            return told

    @router.get("/info/models")
    async def models() -> Answer:
        """What judges texts here, and whether it is loaded."""
        with in_this_shape():
            tasks = await room.tasks()
            from radixway.semantic.classification.info import models_told

            return models_told(tasks.room)

    @router.get("/info/classifier")
    async def classifier() -> Answer:
        """What can be asked, in which categories, under which thresholds."""
        with in_this_shape():
            tasks = await room.tasks()
            from radixway.semantic.classification.info import classifier_told

            return classifier_told(tasks)

    return router


def _task(name: str, field: str, also: tuple[str, ...] = ()) -> Any:
    known = (*_TASKS, *also)
    if name not in known:
        raise ApiError(f"{field} must be one of {', '.join(known)}", param=field, code="INVALID_TASK_TYPE")
    return name


def _options(given: msgspec.Raw, task: Task | None) -> Options:
    """The options of one task, or of several by their names. Raises BadBody, which names the option."""
    from radixway.semantic.classification.options import Options

    if bytes(given).strip() == b"null":
        return Options()
    raw = bytes(given) if task is None else b'{"%s":%s}' % (task.encode(), bytes(given))
    try:
        return msgspec.json.decode(raw, type=Options)
    except msgspec.ValidationError as error:
        raise _named(str(error), task) from None


def _named(text: str, task: Task | None) -> BadBody:
    """msgspec's words about an option, with its place in the body."""
    message, _, place = text.partition(" - at `$")
    field = f"options{place.rstrip('`')}"
    if task is not None:
        field = field.replace(f"options.{task}", "options", 1)
    return BadBody(f"{field}: {message.replace('`', '')}", param=field)
