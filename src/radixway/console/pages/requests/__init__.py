"""*Requests*: the latest ones as a list to search, and each one's way through the gateway."""

from radixway.console.page import ConsolePage, PageVisit
from radixway.console.pages.requests import explanation, request_list


async def build_requests_page(visit: PageVisit) -> None:
    """Build the explanation where the address of `visit` names a request, else the list."""
    if "request_id" in visit.request.path_params:
        await explanation.build_explanation(visit)
    else:
        await request_list.build_request_list(visit)


PAGE = ConsolePage(
    name="requests",
    path="/requests",
    icon="receipt_long",
    key="r",
    build=build_requests_page,
    also=("/requests/{request_id:path}",),
)
