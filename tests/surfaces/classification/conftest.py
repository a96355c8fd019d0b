"""A gateway that is asked what texts are, with the real encoder, loaded once."""

from contextlib import asynccontextmanager

import pytest

from running_gateway import running_gateway


@pytest.fixture(scope="session")
def int8(tmp_path_factory):
    """The real encoder; it is safe to share."""
    from radixway.config import EncodersSection
    from radixway.encoders import load_encoder

    return load_encoder(EncodersSection(home=tmp_path_factory.mktemp("encoders")))


@pytest.fixture
def asking(int8, monkeypatch):
    """`async with asking(semantic=…) as running`: a gateway without workers."""
    monkeypatch.setattr("radixway.encoders.load.load_encoder", lambda config: int8)

    @asynccontextmanager
    async def ask(**sections):
        async with running_gateway(**sections) as running:
            yield running

    return ask
