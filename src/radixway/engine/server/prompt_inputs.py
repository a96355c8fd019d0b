"""Plain prompts as clients write them: a text, texts, token ids, or lists of token ids."""

from collections.abc import Sequence
from functools import partial

from radixway.core.http import BadBodyError
from radixway.engine.server.engine_service import EngineService


async def encode_prompts(
    service: EngineService,
    prompts: Sequence[str | list[int]],
    *,
    param: str,
    add_special_tokens: bool = True,
    must_fit: bool = True,
) -> list[list[int]]:
    """Encode each of `prompts` as token ids. Raises BadBodyError (400) for an empty prompt or an unknown
    id.

    So it does for a text too long for the context, unless it need not fit. Texts are tokenized one by one: if
    the client leaves, the rest of them never is.
    """
    names = [f"{param}[{index}]" if len(prompts) > 1 else param for index in range(len(prompts))]
    texts = {name: prompt for name, prompt in zip(names, prompts, strict=True) if isinstance(prompt, str)}
    if must_fit:
        for name, text in texts.items():
            service.check_length(text, name)
    characters = sum(map(len, texts.values()))
    all_ids = []
    for name, prompt in zip(names, prompts, strict=True):
        if isinstance(prompt, str):
            encode = partial(service.tokenizer.encode, prompt, add_special_tokens=add_special_tokens)
            prompt = await service.run_off_loop(encode, characters=characters)
        service.check_token_ids(prompt, name)
        all_ids.append(prompt)
    return all_ids


def split_prompts(given: str | Sequence[str | int | list[int]], *, param: str) -> Sequence[str | list[int]]:
    """Split `given` into prompts. Raises BadBodyError (400), naming `param`, for none or for mixed kinds."""
    if isinstance(given, str):
        return [given]
    if not given:
        raise BadBodyError(f"{param} is empty", param=param, code="empty_prompt")
    ids = [item for item in given if isinstance(item, int)]
    if len(ids) == len(given):
        return [ids]
    texts = [item for item in given if isinstance(item, str)]
    lists = [item for item in given if isinstance(item, list)]
    if max(len(texts), len(lists)) < len(given):
        message = f"{param} mixes texts, token ids and lists of token ids"
        raise BadBodyError(message, param=param, code="invalid_type")
    return texts or lists
