"""vLLM's `truncate_prompt_tokens` and `truncation_side`: prompts cut to a number of tokens."""

from dataclasses import dataclass

from radixway.core.http import BadBodyError
from radixway.engine.server.engine_service import EngineService
from radixway.engine.server.openai_fields import SamplingBody


@dataclass(slots=True, frozen=True)
class PromptTruncation:
    """How prompts are cut: to `max_tokens`, the last ones or, with `keeps_first`, the first."""

    max_tokens: int
    max_chars: int
    """A text is cut to so many characters before it is tokenized, which is more than the tokens can hold."""
    keeps_first: bool

    def cut_text(self, text: str) -> str:
        """Return what of `text` may be among the tokens that are kept."""
        return text[: self.max_chars] if self.keeps_first else text[-self.max_chars :]

    def cut_tokens(self, token_ids: list[int]) -> list[int]:
        """Return the tokens that are kept."""
        return token_ids[: self.max_tokens] if self.keeps_first else token_ids[-self.max_tokens :]


def parse_truncation(
    service: EngineService, body: SamplingBody, max_tokens: int | None
) -> PromptTruncation | None:
    """Return how prompts of `body` are cut, whose answers have `max_tokens`; None if they are not.

    Raises BadBodyError (400) if so many tokens do not fit the context, or none would be left.
    """
    wanted, param = body.truncate_prompt_tokens, "truncate_prompt_tokens"
    if wanted is None:
        return None
    longest = service.engine.model_info.context_length - max(1, max_tokens or 0)
    if longest < 1:
        raise BadBodyError("max_tokens leaves no space for a prompt", param="max_tokens")
    if wanted != -1 and not 1 <= wanted <= longest:
        message = f"{param} must be -1 (as many as fit) or between 1 and {longest}, not {wanted}"
        raise BadBodyError(message, param=param)
    return PromptTruncation(
        max_tokens=longest if wanted == -1 else wanted,
        max_chars=service.longest_prompt,
        keeps_first=body.truncation_side == "right",
    )
