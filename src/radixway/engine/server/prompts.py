"""Plain prompts as clients write them: a text, texts, token ids, or lists of token ids."""

from collections.abc import Sequence

from radixway.engine.server.service import Service
from radixway.web import BadBody


async def prompt_ids(
    service: Service,
    given: str | Sequence[str | int | list[int]],
    *,
    param: str,
    add_special_tokens: bool = True,
) -> list[list[int]]:
    """Each prompt as token ids. Raises BadBody (400) for an empty or mixed list, or an unknown id."""
    prompts = split_prompts(given, param=param)

    def encode_all() -> list[list[int]]:
        return [
            service.tokenizer.encode(prompt, add_special_tokens=add_special_tokens)
            if isinstance(prompt, str)
            else prompt
            for prompt in prompts
        ]

    characters = sum(len(prompt) for prompt in prompts if isinstance(prompt, str))
    all_ids = await service.off_the_loop(encode_all, characters=characters)
    for index, ids in enumerate(all_ids):
        service.check_token_ids(ids, param if len(all_ids) == 1 else f"{param}[{index}]")
    return all_ids


def split_prompts(given: str | Sequence[str | int | list[int]], *, param: str) -> Sequence[str | list[int]]:
    """The prompts one by one. Raises BadBody (400) for none, or for a list of more than one kind."""
    if isinstance(given, str):
        return [given]
    if not given:
        raise BadBody(f"{param} is empty", param=param, code="empty_prompt")
    ids = [item for item in given if isinstance(item, int)]
    if len(ids) == len(given):
        return [ids]
    texts = [item for item in given if isinstance(item, str)]
    lists = [item for item in given if isinstance(item, list)]
    if max(len(texts), len(lists)) < len(given):
        message = f"{param} mixes texts, token ids and lists of token ids"
        raise BadBody(message, param=param, code="invalid_type")
    return texts or lists
