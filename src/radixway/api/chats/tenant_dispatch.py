"""Dispatch of users' requests as their tenant's: its models, its limits, its part of every cache."""

from __future__ import annotations

from collections.abc import Mapping

from radixway.chat.accounts import UserAccounts
from radixway.chat.errors import ChatNotFoundError
from radixway.chat.local_completions import PipelineCall
from radixway.core.pipeline import Caller, ForbiddenError, Reply, Request, TenantPolicy


async def send_as_tenant(
    request: Request, accounts: UserAccounts, tenancies: Mapping[str, TenantPolicy] | None, road: PipelineCall
) -> Reply:
    """Send a user's `request` through the pipeline. `tenancies`: None where no tenants are configured.

    Raises ForbiddenError: the user was deleted, or the tenant is not configured any more; and what the road
    does.
    """
    try:
        user = await accounts.find_user(request.caller.user or "")
    except ChatNotFoundError:
        raise ForbiddenError("there is no such user any more") from None
    policy = None
    if tenancies:
        if user.tenant not in tenancies:
            raise ForbiddenError(f"there is no tenant {user.tenant!r} any more")
        policy = tenancies[user.tenant]
        request.journal.add("tenant", policy)
    request.caller = Caller(user.tenant, user.gateway_user, policy)
    return await road(request)
