"""Requests to hosted models: each provider's API, and what it makes of a chat completion.

    chat completion ─ ProviderApi.build_call ─► provider ─ ReplyReader ─► chat completion, whole or streamed

Begin with `base.py`, the contract; `transport.py` sends. To add a provider, write its `ProviderApi` and name
it in `transport.PROVIDER_APIS`.
"""

from radixway.routing.transports.hosted.transport import HostedTransport

__all__ = ["HostedTransport"]
