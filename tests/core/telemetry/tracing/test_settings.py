"""Where traces go and which: the configuration first, then the environment variables of OpenTelemetry."""

import subprocess
import sys

import pytest

from radixway.core.config import ConfigError
from radixway.core.config.gateway import TracingConfig
from radixway.core.telemetry.tracing import build_tracing
from radixway.core.telemetry.tracing.settings import resolve_settings

THERE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


@pytest.mark.parametrize(
    ("section", "environ", "is_on"),
    [
        ({}, {}, False),
        ({}, THERE, True),
        ({}, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        ({}, THERE | {"OTEL_TRACES_EXPORTER": "none"}, False),
        ({}, THERE | {"OTEL_SDK_DISABLED": "true"}, False),
        ({"endpoint": "http://c:4318"}, {"OTEL_SDK_DISABLED": "TRUE"}, False),
        ({"endpoint": "http://c:4318"}, {}, True),
        ({"endpoint": "http://c:4318", "enabled": False}, THERE, False),
        ({"enabled": True}, {}, True),
    ],
)
def test_when_anything_is_traced(section, environ, is_on):
    assert (resolve_settings(TracingConfig(**section), environ) is not None) == is_on


@pytest.mark.parametrize(
    ("section", "environ", "ratio", "by_parents"),
    [
        ({}, {}, 1.0, True),
        ({}, {"OTEL_TRACES_SAMPLER": "always_off"}, 0.0, False),
        ({}, {"OTEL_TRACES_SAMPLER": "parentbased_always_on"}, 1.0, True),
        ({}, {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"}, 0.25, False),
        (
            {},
            {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.5"},
            0.5,
            True,
        ),
        ({"sample_ratio": 0.1}, {"OTEL_TRACES_SAMPLER": "always_off"}, 0.1, True),
        ({"parent_based": True}, {"OTEL_TRACES_SAMPLER": "always_on"}, 1.0, True),
    ],
)
def test_which_requests_are_traced(section, environ, ratio, by_parents):
    settings = resolve_settings(TracingConfig(**section), THERE | environ)
    assert (settings.ratio, settings.parent_based) == (ratio, by_parents)


@pytest.mark.parametrize(
    ("given", "protocol", "endpoint"),
    [
        ("http://c:4318", None, "http://c:4318/v1/traces"),
        ("http://c:4318/", None, "http://c:4318/v1/traces"),
        ("https://c/mine/v1/traces", None, "https://c/mine/v1/traces"),
        ("http://c:4317", "grpc", "http://c:4317"),
    ],
)
def test_a_path_is_added_where_there_is_none(given, protocol, endpoint):
    settings = resolve_settings(TracingConfig(endpoint=given, protocol=protocol), {})
    assert settings.endpoint == endpoint


@pytest.mark.parametrize(
    "environ",
    [
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
        {"OTEL_TRACES_SAMPLER": "jaeger_remote"},
        {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"},
        {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "half"},
    ],
)
def test_what_makes_no_sense_is_named(environ):
    with pytest.raises(ConfigError, match=list(environ)[-1]):
        resolve_settings(TracingConfig(), THERE | environ)


@pytest.mark.parametrize(
    "section",
    [
        {"endpoint": "collector:4318"},
        {"endpoint": "http://user:secret@collector"},
        {"headers": {"two words": "x"}},
        {"headers": {"key": "two\nlines"}},
        {"sample_ratio": 1.1},
        {"queue_size": 0},
    ],
)
def test_a_section_that_makes_no_sense_is_refused(section):
    with pytest.raises(ValueError):
        TracingConfig(**section)


def test_without_the_package_the_configuration_says_what_to_install(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "radixway.core.telemetry.tracing.otlp", None)
    with pytest.raises(ConfigError, match=r"radixway\[tracing\]"):
        build_tracing(TracingConfig(endpoint="http://c:4318"))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318")
    assert build_tracing(TracingConfig()) is None  # nobody has asked this program for it
    assert "radixway[tracing]" in caplog.text


def test_opentelemetry_is_not_imported_before_it_is_wanted():
    assert build_tracing(TracingConfig()) is None
    program = (
        "import sys; import radixway.core.telemetry.tracing, radixway.core.config.gateway\n"
        "from radixway.core.telemetry.tracing import build_tracing\n"
        "assert build_tracing(radixway.core.config.gateway.TracingConfig()) is None\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry.sdk')]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_messages_that_another_package_has_written_over_are_told_with_their_cure():
    code = (
        "import sys, types\n"
        "name = 'opentelemetry.proto.common.v1.common_pb2'\n"
        "sys.modules[name] = types.ModuleType(name)\n"
        "from radixway.core.config.gateway import TracingConfig\n"
        "from radixway.core.telemetry.tracing import build_tracing\n"
        "build_tracing(TracingConfig(endpoint='http://127.0.0.1:4318'))\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install --no-deps --force-reinstall opentelemetry-proto" in told.stderr
