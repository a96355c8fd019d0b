"""Requests that have been admitted and wait for KV: from a lower tier, and then from a prefill engine.

    waiting ──admit──► loading ──arrived──► running          abort: loading ──► leaving ──arrived──► gone

They hold their place and their pages, which must not be given to others before the transfer thread is done
with them, not even when the request has been aborted. (What comes from another engine can be cut at once.)
"""

from collections.abc import Iterator

from radixway.engine.disaggregation.decode_kv_manager import DecodeKVManager, KVReceiveTask
from radixway.engine.engine_request import EngineRequest
from radixway.engine.kv_cache_manager import KVCacheManager

MIN_RECEIVE_TOKENS = 32
"""Tokens below which they are computed here, although another engine computes them too: that takes a step."""


class LoadingRequests:
    """Loading requests by id, and aborted ones whose pages are still being filled."""

    def __init__(self, cache: KVCacheManager, transfer_manager: DecodeKVManager | None = None) -> None:
        self._cache = cache
        self._transfer_manager = transfer_manager
        self._requests: dict[str, EngineRequest] = {}
        self._aborted: list[EngineRequest] = []

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[EngineRequest]:
        return iter(self._requests.values())

    def __contains__(self, request: EngineRequest) -> bool:
        return self._requests.get(request.id) is request

    @property
    def requests_with_pages(self) -> list[EngineRequest]:
        """Return all requests that have pages."""
        return [*self._requests.values(), *self._aborted]

    def start_loading(self, request: EngineRequest) -> bool:
        """Load the rest of the prefix of a just locked `request`. False: nothing to wait for."""
        if not self._cache.load_from_tiers(request) and not self._start_receive(request):
            return False
        self._requests[request.id] = request
        return True

    def poll_ready(self, wait_s: float | None = 0.0) -> list[EngineRequest]:
        """Return the loaded requests. Waits up to `wait_s` (None: for long) for the first."""
        if self._transfer_manager is None or not len(self._transfer_manager):
            return self._poll_tier_loads(wait_s)
        ready = self._poll_tier_loads()
        for task in self._transfer_manager.poll_received(0.0 if ready else wait_s or 0.0):
            ready.append(self._apply_received(task))
        return ready

    def abandon_request(self, request: EngineRequest) -> None:
        """Abort a loading `request`; its pages are freed once the transfer thread is done with them."""
        if (task := self._cut_receive(request, "aborted")) is not None:
            self._cache.free_request(self._apply_received(task))
        else:
            del self._requests[request.id]
            self._aborted.append(request)

    def wait_all(self) -> list[EngineRequest]:
        """Wait until nothing is on its way; those that have what they waited for.

        What another engine has not sent yet is not waited for.
        """
        ready = []
        for request in list(self):
            request.room = None
            if (task := self._cut_receive(request, "everything on its way was stopped")) is not None:
                ready.append(self._apply_received(task))
        while self.requests_with_pages:
            ready += self.poll_ready(None)
        return ready

    def _poll_tier_loads(self, wait_s: float | None = 0.0) -> list[EngineRequest]:
        """Take what lower tiers loaded; wait up to `wait_s` for a transfer."""
        ready = []
        for load in self._cache.poll_loads(wait_s):
            request = load.request
            if request.cached_tokens < 0:
                request.host_tokens = load.from_host * self._cache.page_size
                request.disk_tokens = load.from_disk * self._cache.page_size
            if request not in self:
                self._aborted.remove(request)
                self._cache.free_request(request)
            elif not self._start_receive(request):
                del self._requests[request.id]
                ready.append(request)
        return ready

    def _start_receive(self, request: EngineRequest) -> bool:
        """Start fetching from the prefill engine; return False if nothing is missing or it would not pay."""
        room, request.room = request.room, None
        if room is None or self._transfer_manager is None:
            return False
        stop = request.num_reusable_tokens
        missing = stop - request.num_computed_tokens
        if missing < MIN_RECEIVE_TOKENS or not self._cache.allocate_slots(request, stop):
            self._transfer_manager.decline_transfer(request, room)
            return False
        self._transfer_manager.start_receive(request, room, stop)
        return True

    def _cut_receive(self, request: EngineRequest, reason: str) -> KVReceiveTask | None:
        return (
            self._transfer_manager.cut_receive(request, reason)
            if self._transfer_manager is not None
            else None
        )

    def _apply_received(self, task: KVReceiveTask) -> EngineRequest:
        request = task.request
        del self._requests[request.id]
        request.num_computed_tokens = task.received_tokens(self._cache.page_size)
        if request.cached_tokens < 0:
            request.remote_tokens = request.num_computed_tokens - task.first
        self._cache.insert_pages(request)
        return request
