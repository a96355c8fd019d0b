"""A gateway that is asked what texts are, with the real encoder in numpy."""

from contextlib import asynccontextmanager

import pytest

from running_gateway import running_gateway

NUMPY = {"backend": "numpy"}


@pytest.fixture
def asking():
    """`async with asking(semantic=…) as running`: a gateway without workers."""

    @asynccontextmanager
    async def ask(encoders=None, **sections):
        async with running_gateway(encoders=NUMPY | (encoders or {}), **sections) as running:
            yield running

    return ask
