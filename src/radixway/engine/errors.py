"""The engine's errors. Every message names the thing, the value and the way out."""

from pathlib import Path


class EngineError(Exception):
    """The root of everything the engine raises on purpose."""


class ModelNotFoundError(EngineError):
    """No usable model directory (or hub repository) exists at `path`."""

    def __init__(self, path: str | Path, why: str = "no such directory or hub id") -> None:
        super().__init__(f"model not found: {path} ({why})")
        self.path = str(path)


class UnsupportedArchitectureError(EngineError):
    """config.json describes a model that this engine cannot run."""


class CheckpointError(EngineError):
    """The weights do not match config.json: a tensor is missing, or has another shape."""


class InvalidWeightsError(EngineError):
    """The weights that were sent are none, or not for this model; the message names what is wrong."""


class InvalidRequestError(EngineError, ValueError):
    """A request that can never be served; `field` names the part of it that is wrong."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class ContextLengthError(InvalidRequestError):
    """Prompt and wanted tokens together do not fit the context (or the whole KV pool)."""

    def __init__(self, prompt_tokens: int, max_tokens: int | None, limit: int) -> None:
        is_prompt = max_tokens is None or prompt_tokens >= limit
        why = "is longer than the model's context length: it" if is_prompt else f"and max_tokens={max_tokens}"
        super().__init__(
            "prompt" if is_prompt else "max_tokens",
            f"a prompt of {prompt_tokens} tokens {why} does not fit the context of {limit} tokens; "
            "shorten the prompt or ask for fewer tokens",
        )
        self.prompt_tokens = prompt_tokens
        self.max_tokens = max_tokens
        self.limit = limit


class InvalidGrammarError(EngineError):
    """A constraint on answers that cannot be compiled, and why."""


class GrammarUnavailableError(EngineError):
    """The library for constraints on answers is not installed."""


class GrammarStateError(EngineError):
    """A request cannot go on within its constraint."""


class EngineQueueFullError(EngineError):
    """More requests wait than `max_queued` allows; try again later."""


class GenerationError(EngineError):
    """A step of the engine failed, and with it the requests that were in it; the engine goes on."""


class EngineStoppedError(EngineError):
    """The engine is not running (not started, stopped, or its step loop died)."""
