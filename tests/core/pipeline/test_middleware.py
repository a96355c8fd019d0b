"""The onion: order, subscription, loading by dotted path."""

import pytest
from msgspec import UNSET

from radixway.core.config import ConfigError, load_config
from radixway.core.pipeline import ENDPOINTS, BadRequest, Pipeline, Reply, Request, Services, load_middlewares
from radixway.core.telemetry import Journal, MetricsRegistry


def request(surface="openai.chat", raw=b'{"model": "m", "x": 1}'):
    return Request(id="r", endpoint=ENDPOINTS[surface], path="/p", raw=raw, model="m", journal=Journal("r"))


class Step:
    def __init__(self, name, surfaces=None):
        self.name = name
        if surfaces is not None:
            self.surfaces = frozenset(surfaces)

    async def __call__(self, request, call_next):
        request.journal.add(f"{self.name} in")
        reply = await call_next(request)
        request.journal.add(f"{self.name} out")
        return reply


async def dispatch(request):
    request.journal.add("dispatch")
    return Reply(200, [], "w", b"ok")


def steps(request):
    return [step for step, _, _ in request.journal.entries]


async def test_middlewares_wrap_each_other_in_order():
    sent = request()
    await Pipeline([Step("a"), Step("b")], dispatch)(sent)
    assert steps(sent) == ["a in", "b in", "dispatch", "b out", "a out"]


async def test_the_time_of_a_dispatch_that_counts_it_is_counted_once():
    seen = []

    async def count_time(request):  # and says nothing of it
        request.inner_steps_s += 1000.0
        return await dispatch(request)

    async def look(request, call_next):
        reply = await call_next(request)
        seen.append(request.inner_steps_s)
        return reply

    await Pipeline([look], count_time, MetricsRegistry().steps)(request())
    assert len(seen) == 1 and seen[0] < 1000.0


class TokenStep(Step):
    def applies_to(self, endpoint):
        return endpoint.has_token_ids


@pytest.mark.parametrize("step", [TokenStep("a"), Step("a", ["generate"])])
async def test_a_middleware_is_in_the_chains_of_endpoints_it_applies_to(step):
    pipeline = Pipeline([step], dispatch)
    chat, generate = request(), request("generate")
    await pipeline(chat)
    await pipeline(generate)
    assert steps(chat) == ["dispatch"]
    assert steps(generate) == ["a in", "dispatch", "a out"]


class Built(Step):
    def __init__(self, services):
        self.services = services


class ByName(Built):
    surfaces = frozenset({"generate"})


def test_a_middleware_that_goes_by_names_is_told_of_in_the_log(caplog):
    services = Services(load_config(), MetricsRegistry())
    load_middlewares([f"{__name__}.Built", f"{__name__}.ByName"], services)
    (record,) = caplog.records
    assert "ByName lists its endpoints by name" in record.getMessage()


def test_a_middleware_is_built_from_its_dotted_path_with_the_services():
    services = Services(load_config(), MetricsRegistry())
    (built,) = load_middlewares([f"{__name__}.Built"], services)
    assert built.services is services


@pytest.mark.parametrize(
    "path", ["no.such.module.X", "radixway.core.pipeline.NoSuchClass", "Plain", "radixway.__version__", ""]
)
def test_a_dotted_path_that_names_nothing_is_told_in_a_sentence(path):
    with pytest.raises(ConfigError, match="pipeline.middlewares"):
        load_middlewares([path], Services(load_config(), MetricsRegistry()))


class NeedsMore(Step):
    def __init__(self, services, more): ...


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("json.loads", "is no middleware"),
        ("os.path", "is no middleware"),
        ("json.JSONDecoder", "is no middleware"),
        ("operator.itemgetter", "is no middleware"),
        (f"{__name__}.NeedsMore", "cannot be built from the gateway's services: .*'more'"),
        ("..Step", "cannot be loaded"),
    ],
)
def test_a_dotted_path_that_names_no_middleware_is_told_in_a_sentence(path, told):
    with pytest.raises(ConfigError, match=f"pipeline.middlewares: .*{told}"):
        load_middlewares([path], Services(load_config(), MetricsRegistry()))


def test_a_middleware_in_a_module_with_a_syntax_error_is_told_in_a_sentence(tmp_path, monkeypatch):
    (tmp_path / "half_written.py").write_text("class Mine(:\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="'half_written.Mine' cannot be loaded: .*line 1"):
        load_middlewares(["half_written.Mine"], Services(load_config(), MetricsRegistry()))


def test_an_edit_changes_what_it_names_and_leaves_the_bytes_of_everything_else():
    sent = request(raw=b'{ "model":"m","x": 1e-7, "y": "\\u4f60", "z": 1e999 }')
    sent.edit(model="n", temperature=0)
    assert sent.raw == b'{"model":"n","x":1e-7,"y":"\\u4f60","z":1e999,"temperature":0}'
    sent.edit(z=UNSET)
    assert sent.body == {"model": "n", "x": 1e-7, "y": "你", "temperature": 0}


def test_a_body_that_cannot_be_decoded_is_the_clients_mistake_when_a_middleware_reads_it():
    with pytest.raises(BadRequest):
        _ = request(raw=b'{"model": "m", "zz": "\xff"}').body
