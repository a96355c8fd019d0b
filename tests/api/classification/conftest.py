"""A gateway that is asked what texts are, with the real encoder."""

from contextlib import asynccontextmanager

import pytest

from support.running_gateway import running_gateway


@pytest.fixture
def asking(one_encoder, monkeypatch):
    """`async with asking(semantic=…) as running`: a gateway without workers."""
    monkeypatch.setattr("radixway.semantics.encoders.factory.load_encoder", lambda config: one_encoder)

    @asynccontextmanager
    async def ask(**sections):
        async with running_gateway(**sections) as running:
            yield running

    return ask
