"""W3C Trace Context, as hostile clients write it."""

import pytest

from radixway.core.telemetry.trace_record import format_traceparent
from radixway.core.telemetry.tracing import parse_caller_span

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SOUND = f"00-{TRACE}-{SPAN}-01".encode()


def read(*headers):
    return parse_caller_span([(name.encode(), value) for name, value in headers])


def test_what_is_sound_is_read_and_written_alike():
    caller = read(("traceparent", SOUND), ("tracestate", b"congo=t61rcWkgMzE, rojo=00f0"))
    assert (f"{caller.trace_id:032x}", f"{caller.span_id:016x}", caller.sampled) == (TRACE, SPAN, True)
    assert caller.state == b"congo=t61rcWkgMzE,rojo=00f0"
    assert format_traceparent(caller.trace_id, caller.span_id, sampled=True) == SOUND
    assert read(("traceparent", SOUND[:-2] + b"02")).sampled is False


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"00",
        SOUND.upper(),
        SOUND + b"-more",
        SOUND + b"\n",
        b"\xff" * 55,
        b"ff" + SOUND[2:],
        f"00-{'0' * 32}-{SPAN}-01".encode(),
        f"00-{TRACE}-{'0' * 16}-01".encode(),
        f"00-{TRACE}-{SPAN}-0x".encode(),
        b"00-" + b"a" * 10_000,
    ],
)
def test_what_is_malformed_has_not_been_said(value):
    assert read(("traceparent", value), ("tracestate", b"a=1")) is None


def test_of_two_callers_neither_is_one():
    assert read(("traceparent", SOUND), ("traceparent", SOUND)) is None


def test_a_later_version_may_say_more():
    assert read(("traceparent", b"01" + SOUND[2:] + b"-what-comes")).sampled


@pytest.mark.parametrize(
    "state",
    [
        b",".join(b"k%d=v" % n for n in range(33)),
        b"k=" + b"v" * 600,
        b"k=1,k=2",
        b"=v",
        b"k",
        b"K=v",
        b"k=a\x01b",
        b"k=\xc3\xa4",
        b",,,",
    ],
)
def test_a_tracestate_that_is_not_one_travels_no_further(state):
    caller = read(("traceparent", SOUND), ("tracestate", state))
    assert caller is not None and caller.state == b""
