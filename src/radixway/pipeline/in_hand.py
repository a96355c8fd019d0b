"""The requests that the gateway has in hand, by what their clients call them."""

from __future__ import annotations

from radixway.pipeline.request import Request


class InFlightRequests:
    """Who has which request, for `/abort_request`. Clients may call several of theirs the same."""

    def __init__(self) -> None:
        self._requests: dict[str, list[Request]] = {}

    def add_request(self, request: Request) -> None:
        """It is known what the request is called."""
        for name in {request.id, *request.rids}:
            self._requests.setdefault(name, []).append(request)

    def remove_request(self, request: Request) -> None:
        """Its answer has ended, however. May be called for one that never began."""
        for name in {request.id, *request.rids}:
            found = self._requests.get(name, [])
            if request in found:
                found.remove(request)
                if not found:
                    del self._requests[name]

    def __len__(self) -> int:
        """Names that something in hand has."""
        return len(self._requests)

    def match_requests(self, name: str) -> list[Request]:
        """Those whose `rid` or request id begins with `name`, which is how SGLang finds what to abort."""
        return [request for own, found in self._requests.items() if own.startswith(name) for request in found]
