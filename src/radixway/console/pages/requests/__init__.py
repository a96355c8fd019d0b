"""*Requests*: the latest ones as a list that is searched, and each one's way through the house."""

from radixway.console.page import Page, Visit
from radixway.console.pages.requests import explained, listing


async def build(visit: Visit) -> None:
    """One request where the address names one, else the list."""
    if "request_id" in visit.request.path_params:
        await explained.build(visit)
    else:
        await listing.build(visit)


PAGE = Page(
    name="requests",
    path="/requests",
    icon="receipt_long",
    key="r",
    build=build,
    also=("/requests/{request_id:path}",),
)
