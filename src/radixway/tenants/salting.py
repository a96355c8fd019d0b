"""The middleware that keeps a tenant's prefixes apart from others' in the workers' caches."""

from __future__ import annotations

from typing import Any

from radixway.pipeline import BadRequest, Next, Reply, Request


class CacheSalting:
    """Sets the endpoint's `salt_field`, which engines and this gateway's block index read: `cache_salt`, as
    vLLM, SGLang and our engine know it on OpenAI's paths, and `extra_key` on `/generate`, as SGLang has it.

    It stands inside of the semantic cache, whose scopes do not depend on it.
    """

    step_name = "Salting"

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        """The answer of whoever comes next. Raises BadRequest for a salt of the client's that is no text."""
        tenancy = request.tenant_policy
        if tenancy is not None and tenancy.cache_salt is not None:
            name = request.endpoint.salt_field
            own = request.body.get(name) if name.encode() in request.raw else None
            request.edit(**{name: _combine_salt(tenancy.cache_salt, own, name)})
        return await call_next(request)


def _combine_salt(salt: str, own: Any, field: str) -> str | list[str]:
    """The tenant's salt, and within its bounds the client's own; a batch may bring one for each prompt."""
    if own is None:
        return salt
    if isinstance(own, str):
        return f"{salt}/{own}"
    if isinstance(own, list) and all(isinstance(each, str) for each in own):
        return [f"{salt}/{each}" for each in own]
    raise BadRequest(f"{field} must be a text", param=field)
