"""Classifiers that are loaded with the first text they are to read."""

import asyncio
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from radixway.semantics.encoders.base import EncoderError
from radixway.semantics.encoders.service import EncoderService

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class TextClassifier(Protocol[R_co]):
    """See `SequenceClassifier` and `TokenClassifier`."""

    @property
    def labels(self) -> tuple[str, ...]: ...

    def classify_steps(self, text: str) -> Generator[None, None, R_co]: ...


class LazyClassifier(Generic[R]):
    """A classifier's directory. Loads once, in a thread of its own; reads in the encoder's threads.

    What could not be loaded is not tried again. Belongs to one event loop.
    """

    def __init__(
        self,
        service: EncoderService,
        path: Path,
        load: Callable[[Path, Path | None], TextClassifier[R]],
        mapping: Path | None = None,
    ) -> None:
        """`load` blocks, and raises EncoderError. `mapping`: where its labels do not lie beside it."""
        self.path = path
        self._service = service
        self._load = load
        self._mapping = mapping
        self._loading: asyncio.Task[TextClassifier[R]] | None = None

    @property
    def loaded(self) -> TextClassifier[R] | None:
        """Return the classifier; None until it is loaded, or if it cannot be."""
        task = self._loading
        if task is None or not task.done() or task.cancelled() or task.exception() is not None:
            return None
        return task.result()

    @property
    def failure(self) -> str | None:
        """Why it cannot be loaded."""
        task = self._loading
        if task is None or not task.done() or task.cancelled():
            return None
        error = task.exception()
        return None if error is None else str(error)

    async def classify_text(self, text: str) -> R:
        """Raises EncoderError, also where the encoder's queue is full."""
        classifier = await self._load_once()
        return await self._service.run_work(lambda _: classifier.classify_steps(text))

    async def _load_once(self) -> TextClassifier[R]:
        if self._loading is None or self._loading.cancelled():
            self._loading = asyncio.create_task(asyncio.to_thread(self._load, self.path, self._mapping))
        try:
            return await asyncio.shield(self._loading)
        except (ImportError, OSError, ValueError, RuntimeError) as error:
            raise EncoderError(f"{self.path} cannot be loaded: {error}") from error
