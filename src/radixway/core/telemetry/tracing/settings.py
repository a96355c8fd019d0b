"""Settings of tracing: the section, and below it the environment variables of OpenTelemetry."""

from collections.abc import Mapping
from dataclasses import dataclass

from radixway.core.config import ConfigError
from radixway.core.config.gateway import Protocol, TracingConfig

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_HTTP_PATH = "/v1/traces"


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """Tracing settings. The exporter reads None from the environment itself."""

    section: TracingConfig
    endpoint: str | None
    protocol: Protocol
    ratio: float
    parent_based: bool


def resolve_settings(section: TracingConfig, environ: Mapping[str, str]) -> TracingSettings | None:
    """None where nothing is to be traced. Raises ConfigError for variables that make no sense."""
    if not _is_tracing_on(section, environ):
        return None
    ratio, parent_based = _sampler_from_environ(section, environ)
    protocol = section.protocol or _protocol_from_environ(environ)
    endpoint = section.endpoint
    is_bare = endpoint is not None and (endpoint.count("/") < 3 or endpoint.endswith("/"))
    if endpoint is not None and is_bare and protocol == "http/protobuf":
        endpoint = endpoint.rstrip("/") + _HTTP_PATH
    return TracingSettings(section, endpoint, protocol, ratio, parent_based)


def _is_tracing_on(section: TracingConfig, environ: Mapping[str, str]) -> bool:
    if section.enabled is not None:
        return section.enabled
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if section.endpoint is not None:
        return True
    exporter = environ.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    return exporter == "otlp" and any(environ.get(name, "").strip() for name in _ENDPOINTS)


def _protocol_from_environ(environ: Mapping[str, str]) -> Protocol:
    for name in _PROTOCOLS:
        match environ.get(name, "").strip():
            case "grpc" | "http/protobuf" as protocol:
                return protocol
            case str(other) if other:
                raise ConfigError(f"environment: {name}: {other!r} is not spoken here: http/protobuf or grpc")
    return "http/protobuf"


def _sampler_from_environ(section: TracingConfig, environ: Mapping[str, str]) -> tuple[float, bool]:
    """Return the sampled share, and whether callers may decide."""
    parent_based = section.parent_based
    if section.sample_ratio is not None:
        return section.sample_ratio, parent_based
    named = environ.get("OTEL_TRACES_SAMPLER", "").strip()
    kind = named.removeprefix("parentbased_")
    if named and "parent_based" not in section.model_fields_set:
        parent_based = kind != named
    if kind in ("", "always_on"):
        return 1.0, parent_based
    if kind == "always_off":
        return 0.0, parent_based
    if kind != "traceidratio":
        raise ConfigError(f"environment: OTEL_TRACES_SAMPLER: there is no sampler {named!r} here")
    given = environ.get("OTEL_TRACES_SAMPLER_ARG", "").strip() or "1"
    try:
        ratio = float(given)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise ConfigError(f"environment: OTEL_TRACES_SAMPLER_ARG must be in [0, 1], not {given!r}")
    return ratio, parent_based
