"""What a worker says in headers, and what of it reaches the client."""

import pytest

from radixway.api.ext_proc.messages import split_response_headers
from radixway.routing.transports import filter_reply_headers
from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, scripted_worker

OURS = {
    "access-control-allow-origin": "*",
    "Access-Control-Allow-Credentials": "true",
    "access-control-expose-headers": "*",
    "x-radixway-worker": "another:1",
    "X-Radixway-Fallback": "forged",
    "x-radixway-made-up": "forged",
    "set-cookie": "a=b",
}
EVENT = b'data: {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]}\n\n'
EVENTS = EVENT + b"data: [DONE]\n\n"
WHOLE = b'{"choices": [{"index": 0, "message": {"content": "ok"}, "finish_reason": "stop"}]}'


async def boasting(exchange: Exchange) -> None:
    stream = b'"stream": true' in exchange.body
    kind, body = ("text/event-stream", EVENTS) if stream else ("application/json", WHOLE)
    lines = [f"{name}: {value}" for name, value in (OURS | {"x-theirs": "kept"}).items()]
    lines += [f"content-type: {kind}", f"content-length: {len(body)}"]
    exchange.writer.write(("HTTP/1.1 200 OK\r\n" + "\r\n".join(lines) + "\r\n\r\n").encode() + body)
    await exchange.writer.drain()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/generate"])
async def test_what_the_gateway_alone_says_reaches_clients_from_no_worker(path, stream):
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "prompt": "hi", "text": "hi"}
    async with scripted_worker(behaviour=boasting) as worker, running_gateway(worker.url) as gateway:
        async with gateway.client.post(gateway.url + path, json=body | {"stream": stream}) as answer:
            assert answer.status == 200, await answer.text()
            await answer.read()
            names = [name.lower() for name in answer.headers]
            name = next(iter(gateway.gateway.registry)).name
            assert answer.headers.getall("x-radixway-worker") == [name]
            assert answer.headers["x-theirs"] == "kept"
    assert not any(name.startswith("access-control-") or name == "set-cookie" for name in names)
    assert [name for name in names if name.startswith("x-radixway-")] == ["x-radixway-worker"]


async def test_listed_origins_are_the_gateways_to_name():
    tree = {"cors_origins": ["https://app.example"]}
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    async with (
        scripted_worker(behaviour=boasting) as worker,
        running_gateway(worker.url, gateway=tree) as gateway,
    ):
        async with gateway.client.post(
            gateway.url + "/v1/chat/completions", json=body, headers={"origin": "https://app.example"}
        ) as answer:
            assert answer.headers.getall("access-control-allow-origin") == ["https://app.example"]
            assert "access-control-allow-credentials" not in answer.headers


def test_through_envoy_the_same_are_taken_off():
    raw = [(b":status", b"200"), *((name.lower().encode(), value.encode()) for name, value in OURS.items())]
    raw += [(b"x-theirs", b"kept"), (b"content-length", b"2")]
    status, headers, removed = split_response_headers(raw)
    assert (status, headers) == (200, [(b"x-theirs", b"kept")])
    assert removed == sorted(name.lower().encode() for name in OURS)


def test_what_is_of_one_connection_goes_no_further():
    kept = [(b"content-type", b"a"), (b"x-theirs", b"b")]
    named = [(b"connection", b"Keep-Alive, X-Hop"), (b"x-hop", b"1"), (b"proxy-connection", b"close")]
    assert filter_reply_headers([*kept, *named]) == kept


def test_others_are_kept_in_their_order():
    kept = [(b"content-type", b"a"), (b"x-vsr-selected-model", b"m"), (b"access", b"b"), (b"x-radix", b"c")]
    assert filter_reply_headers([*kept, (b"access-control-max-age", b"1")]) == kept
