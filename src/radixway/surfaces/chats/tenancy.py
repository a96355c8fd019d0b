"""What users ask for is asked for in their tenant's name: its models, its limits, its part of every cache."""

from __future__ import annotations

from collections.abc import Mapping

from radixway.chat.accounts import Accounts
from radixway.chat.completions import Road
from radixway.chat.errors import NotFound
from radixway.pipeline import Forbidden, Reply, Request, Tenancy


async def as_its_tenant(
    request: Request, accounts: Accounts, tenancies: Mapping[str, Tenancy] | None, road: Road
) -> Reply:
    """Send a user's request down the road. `tenancies`: None where no tenants are configured.

    Raises Forbidden: the user was deleted, or the tenant is not configured any more; and what the road does.
    """
    try:
        user = await accounts.find(request.user or "")
    except NotFound:
        raise Forbidden("there is no such user any more") from None
    request.tenant, request.user = user.tenant, user.known_as
    if tenancies:
        if user.tenant not in tenancies:
            raise Forbidden(f"there is no tenant {user.tenant!r} any more")
        request.tenancy = tenancies[user.tenant]
        request.journal.add("tenant", request.tenancy)
    return await road(request)
