"""The real encoder, in numpy: what is compared here must not depend on what is installed."""

import pytest

from radixway.core.config import EncodersConfig
from radixway.semantics.encoders import EncoderService, load_encoder
from radixway.semantics.tools import ToolIndex, ToolProfileCache


@pytest.fixture(scope="session")
def minilm():
    return load_encoder(EncodersConfig(backend="numpy"))


@pytest.fixture
async def encoders(minilm):
    service = EncoderService(lambda: minilm)
    yield service
    await service.aclose()


@pytest.fixture
def index_of(encoders):
    async def make(*tools):
        return ToolIndex(tools, await ToolProfileCache(encoders).profiles_for(tools))

    return make
