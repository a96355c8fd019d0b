"""What is asked of an open gateway and not answered yet, which ends with it."""

from __future__ import annotations

import asyncio

from radixway.embedded.errors import RadixwayError
from radixway.embedded.in_process import ExchangeLeftError, InProcessExchange


def closed_error() -> RadixwayError:
    """What is raised by whoever asks when it is too late, or had asked and is not answered."""
    return RadixwayError("this Radixway is closed", status=503, code="closed")


class InFlightExchanges:
    """Exchanges between `enter` and `leave`; belongs to the event loop in which it was made."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._exchanges: set[InProcessExchange] = set()
        self._closed = False

    async def start_exchange(self, exchange: InProcessExchange) -> None:
        """Ask, and wait until the answer begins. Raises what `why` says where it does not."""
        if self._closed:
            raise closed_error()
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("this Radixway was opened in another event loop: open one here, or use `with`")
        self._exchanges.add(exchange)
        try:
            await exchange.__aenter__()
        except ExchangeLeftError:
            self._exchanges.discard(exchange)
            raise self.left_reason() from None
        except BaseException:
            self._exchanges.discard(exchange)
            raise

    async def end_exchange(self, exchange: InProcessExchange) -> None:
        """End it; what has been answered by then stays answered."""
        await exchange.aclose()
        self._exchanges.discard(exchange)

    def left_reason(self) -> Exception:
        """Why somebody reads in vain who is told that the exchange was left."""
        return (
            closed_error() if self._closed else RuntimeError("the stream was left, and is not read any more")
        )

    async def close_all(self) -> None:
        """End all of them, and let nobody ask any more."""
        self._closed = True
        await asyncio.gather(*(exchange.aclose() for exchange in list(self._exchanges)))
        self._exchanges.clear()
