"""The `radixway` command as a user meets it: in a process of its own, where that makes a difference."""

import asyncio
import json
import os
import signal
import socket
import ssl
import subprocess
import sys

import pytest

from support.certificates import certificate
from support.command_runs import call_command, run_command
from support.hosted_gateway import fronted
from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, scripted_worker


def radixway(*args, env=None):
    return subprocess.run(
        [sys.executable, "-m", "radixway", *args],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200", **(env or {})},
    )


async def started(*args, stdout=asyncio.subprocess.PIPE):
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "radixway",
        *args,
        stdout=stdout,
        stderr=asyncio.subprocess.PIPE,
    )


def test_importing_the_package_and_the_command_pulls_in_nothing_heavy():
    heavy = "{'torch', 'transformers', 'fastapi', 'aiohttp', 'numpy'}"
    code = f"import radixway, radixway.cli, sys; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_version_and_help():
    assert radixway("version").stdout.strip()
    told = radixway("--help")
    assert told.returncode == 0
    for command in ("up", "serve", "engine", "ask", "workers", "config", "version"):
        assert command in told.stdout


def test_a_command_of_an_earlier_release_says_what_to_run_in_its_place():
    ran = run_command("eval", "guard", "pii", "--json", "figures.json", "--help")
    assert ran.exit_code == 2 and "run python tools/evaluate.py" in ran.stderr
    assert "eval" not in run_command("--help").stdout.split()


def test_config_show_prints_the_effective_tree():
    told = run_command("config", "show", env={"RADIXWAY__GATEWAY__PORT": "1234"})
    assert told.exit_code == 0
    assert "port: 1234" in told.stdout


def test_config_check_names_every_mistake_by_line(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text("gateway:\n  port: -1\n  prot: 1\n")
    told = run_command("config", "check", str(path))
    assert told.exit_code == 2
    assert "bad.yaml:2: gateway.port" in told.stderr
    assert "bad.yaml:3: gateway.prot" in told.stderr
    assert "Traceback" not in told.stderr
    path.write_text("gateway: 5\nengine: []\n")
    told = run_command("config", "check", str(path))
    assert told.exit_code == 2
    assert "bad.yaml:1: gateway: " in told.stderr
    assert "bad.yaml:2: engine: " in told.stderr
    path.write_text("gateway: {port: 1}\n")
    assert run_command("config", "check", str(path)).exit_code == 0


@pytest.mark.parametrize("command", ["up", "serve", pytest.param("engine", marks=pytest.mark.slow)])
def test_a_busy_port_ends_in_one_sentence_and_exit_code_2(command):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        told = radixway(command, "--port", str(port))
    assert told.returncode == 2
    assert str(port) in told.stderr
    assert "Traceback" not in told.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
@pytest.mark.parametrize("command", ["up", "serve", "engine"])
def test_nothing_listens_for_other_machines_without_a_key_unless_that_is_said(command, host, free_port):
    told = run_command(command, "--host", host, "--port", str(free_port))
    assert told.exit_code == 2
    assert host in told.stderr and "--insecure" in told.stderr and "key" in told.stderr
    assert "Traceback" not in told.stderr


def test_the_engine_takes_its_generation_config_as_an_option():
    told = run_command("engine", "--generation-config", "sometimes")
    assert told.exit_code == 2 and "engine.generation_config" in told.stderr
    assert "'auto' or 'none'" in told.stderr and "Traceback" not in told.stderr


def test_an_admin_key_alone_does_not_keep_others_from_asking_models(free_port):
    env = {"RADIXWAY__GATEWAY__ADMIN_KEY": "hush"}
    told = run_command("serve", "--host", "0.0.0.0", "--port", str(free_port), env=env)
    assert told.exit_code == 2
    assert "administrative calls alone" in told.stderr and "hush" not in told.stderr


@pytest.mark.parametrize(
    ("arguments", "env"),
    [
        (["--insecure"], {}),
        ([], {"RADIXWAY__GATEWAY__INSECURE": "true"}),
        ([], {"RADIXWAY__TENANTS": '{"a": {"keys": [{"key": "hush"}]}}'}),
    ],
    ids=["option", "environment", "keys"],
)
async def test_what_was_said_or_has_keys_may_listen_for_others(monkeypatch, arguments, env):
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    gateway = await started("serve", "--host", "0.0.0.0", "--port", "0", *arguments)
    try:
        assert (await gateway.stdout.readline()).startswith(b"gateway http://0.0.0.0:")
    finally:
        gateway.terminate()
        await gateway.communicate()


@pytest.mark.parametrize("command", ["up", pytest.param("engine", marks=pytest.mark.slow)])
def test_a_missing_model_directory_ends_in_one_sentence_and_exit_code_2(command, free_port):
    told = run_command(command, "--port", str(free_port), "--model", "/no/such/model")
    assert told.exit_code == 2
    assert "/no/such/model" in told.stderr
    assert "Traceback" not in told.stderr


@pytest.mark.parametrize("command", ["up", "serve", "engine"])
def test_a_broken_config_ends_in_one_sentence_and_exit_code_2(command, tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text("gateway: [\n")
    told = run_command(command, "--config", str(path))
    assert told.exit_code == 2
    assert "bad.yaml" in told.stderr
    assert "Traceback" not in told.stderr


@pytest.mark.parametrize("signum", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
async def test_a_signal_drains_the_gateway_and_it_exits_0(signum):
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(exchange: Exchange) -> None:
        begun.set()
        await go_on.wait()
        await exchange.reply(200, b'{"late": true}')

    async with scripted_worker(slowly) as worker:
        process = await started("serve", "--port", "0", "--worker", worker.url)
        try:
            async with asyncio.timeout(30):
                line = (await process.stdout.readline()).decode()
                host, port = line.split("http://")[1].split()[0].split(":")
                reader, writer = await asyncio.open_connection(host, int(port))
                body = b'{"messages": [{"role": "user", "content": "x"}]}'
                head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(
                    body
                )
                status = b"503"
                while b"503" in status:  # until the worker has been seen
                    writer.write(head + body)
                    waiting = asyncio.ensure_future(reader.readuntil(b"}"))
                    await asyncio.wait(
                        {waiting, asyncio.ensure_future(begun.wait())}, return_when=asyncio.FIRST_COMPLETED
                    )
                    if begun.is_set():
                        break
                    status = await waiting
                    await reader.readuntil(b"}")
                process.send_signal(signum)
                go_on.set()
                assert b'{"late": true}' in await waiting
                writer.close()
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()


async def test_a_gateway_whose_output_nobody_reads_goes_on_serving(free_port):
    reader, writer = os.pipe()
    os.close(reader)
    probed = asyncio.Event()
    worker = await asyncio.start_server(lambda _reader, _writer: probed.set(), "127.0.0.1", 0)
    url = "http://{}:{}".format(*worker.sockets[0].getsockname())
    process = await started("serve", "--port", str(free_port), "--worker", url, stdout=writer)
    os.close(writer)
    try:
        async with asyncio.timeout(30):
            await probed.wait()
            answer, request = await asyncio.open_connection("127.0.0.1", free_port)
            request.write(b"GET /list_workers HTTP/1.1\r\nhost: x\r\n\r\n")
            assert await answer.readline() == b"HTTP/1.1 200 OK\r\n"
            request.close()
            process.terminate()
            assert await process.wait() == 0
    finally:
        worker.close()
        if process.returncode is None:
            process.kill()


def test_a_command_whose_output_nobody_reads_ends_quietly():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer) as unread:
        told = subprocess.run(
            [sys.executable, "-m", "radixway", "config", "show"], stdout=unread, stderr=subprocess.PIPE
        )
    assert told.stderr == b""


async def test_ask_streams_an_answer_and_tells_where_it_came_from():
    async def answer(exchange: Exchange) -> None:
        assert exchange.json()["stream_options"] == {"include_usage": True}
        await exchange.begin_stream()
        for text in ("two ", "words"):
            event = {"model": "m", "choices": [{"delta": {"content": text}}]}
            await exchange.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")
        usage = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
        await exchange.chunk(b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n")
        await exchange.chunk(b"data: [DONE]\n\n")
        await exchange.end_stream()

    async with scripted_worker(answer) as worker, running_gateway(worker.url) as gateway:
        ran = await call_command("ask", "--url", gateway.url, "what?")
    assert ran.exit_code == 0
    told = ran.stdout
    assert told.startswith("two words\n")
    assert worker.url.removeprefix("http://") in told
    assert "4 of 9 prompt tokens cached" in told


def test_ask_without_a_gateway_ends_in_one_sentence(free_port):
    told = run_command("ask", "--url", f"127.0.0.1:{free_port}", "what?")
    assert told.exit_code == 2
    assert told.stderr.endswith(
        f"no gateway answers at http://127.0.0.1:{free_port}: it refuses connections: nothing listens there\n"
    )


async def test_workers_are_added_listed_and_removed():
    async def run(*args):
        return await run_radixway("workers", *args, "--url", gateway.url)

    async with scripted_worker() as worker, running_gateway() as gateway:
        assert (await run("add", worker.url))[0] == 0
        code, listing, _ = await run("list")
        assert code == 0
        assert worker.url in listing
        assert (await run("remove", worker.url))[0] == 0
        code, _, told = await run("remove", worker.url)
        assert code == 2
        assert "there is no worker" in told
        code, _, told = await run("add", "ftp://x")
        assert code == 2
        assert "http(s)" in told


async def test_workers_of_a_provider_are_listed_with_its_name():
    async with fronted("anthropic") as (provider, gateway):
        listing = await call_command("workers", "list", "--url", gateway.url)
    lines = listing.stdout.splitlines()
    assert "provider" in lines[0]
    assert "anthropic" in next(line for line in lines if provider.url in line)


async def test_a_server_that_is_no_gateway_ends_each_call_in_one_sentence():
    async def answer(exchange: Exchange) -> None:
        await exchange.reply(200, b"<html>It works!</html>", "text/html")

    async with scripted_worker(answer) as server:
        for command in (["workers", "list"], ["workers", "add", "http://a"], ["ask", "what?"]):
            ran = await call_command(*command, "--url", server.url)
            assert ran.exit_code == 2
            assert ran.stderr.startswith(f"radixway: what answers at {server.url} is no gateway")


async def test_what_a_gateway_tells_is_shown_as_it_is():
    worker = {"url": "http://[fe80::1]:8", "state": "ready", "models": ["[/x]"]}
    listing = {"workers": [{**worker, "in_flight": 0, "total": 0, "kv_tokens": None}]}

    async def answer(exchange: Exchange) -> None:
        await exchange.reply(200, json.dumps(listing).encode())

    async with scripted_worker(answer) as server:
        ran = await call_command("workers", "list", "--url", server.url)
    assert ran.exit_code == 0
    assert "http://[fe80::1]:8  ready  [/x]" in ran.stdout


async def test_the_whole_plan_is_written_as_json(tmp_path):
    target = {"replicas": 2, "ready": 1, "by_load": 1, "by_forecast": None, "pressure": 0.5}
    plan = {"at": 1.0, "models": [{"model": "m", "roles": {"prefill": target, "decode": target}}]}

    async def answer(exchange: Exchange) -> None:
        await exchange.reply(200, json.dumps(plan).encode())

    async with scripted_worker(answer) as server:
        ran = await call_command("plan", "--url", server.url, "--json", str(tmp_path / "plan.json"))
    assert ran.exit_code == 0 and "prefill" in ran.stdout
    assert json.loads((tmp_path / "plan.json").read_bytes()) == plan


async def test_what_keeps_a_worker_from_answering_is_told_to_whoever_lists_or_asks(free_port):
    worker = f"http://127.0.0.1:{free_port}"
    async with running_gateway(worker, wait=False) as gateway:
        known = gateway.gateway.registry.get_worker(worker)
        async with asyncio.timeout(20):
            while known.error_kind is None:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
        listed = await call_command("workers", "list", "--url", gateway.url)
        asked = await call_command("ask", "hello", "--url", gateway.url)
    assert f"{worker}: /health: it refuses connections: nothing listens there" in listed.stdout
    assert asked.exit_code and "out of reach: 1 × connections refused" in " ".join(asked.stderr.split())


@pytest.mark.parametrize("columns", ["80", "60"])
async def test_workers_are_told_apart_in_narrow_terminals(columns):
    urls = [f"http://model-server-{number}.inference.cluster.example:8000" for number in (1, 2)]
    error = "/health: cannot connect: the certificate is for another name"
    workers = [
        {"url": url, "state": "joining", "models": ["m"], "last_error": error, "error_kind": "tls"}
        for url in urls
    ]
    missing = {"in_flight": 1234, "total": 56789, "kv_tokens": 200_000, "sources": ["config"]}

    async def answer(exchange: Exchange) -> None:
        await exchange.reply(200, json.dumps({"workers": [each | missing for each in workers]}).encode())

    async with scripted_worker(answer) as server:
        env = {"COLUMNS": columns}
        told = await asyncio.to_thread(radixway, "workers", "list", "--url", server.url, env=env)
    assert told.returncode == 0, told.stderr
    assert "1234" in told.stdout.split() and "…" not in told.stdout
    for url in urls:
        assert url in told.stdout.split()
        assert f"{url}: {error}\n" in told.stdout


async def test_ask_tells_why_no_worker_is_ready(tmp_path):
    pem, secret, _ = certificate("unknown-authority", tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, secret)
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0, ssl=context)
    distrusted = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    wrong = "http://no-such-host.invalid:8000"
    async with server, running_gateway(distrusted, wrong, wait=False) as gateway:
        async with asyncio.timeout(30):
            while not all(each["last_error"] for each in (await gateway.get("/list_workers"))[1]["workers"]):
                continue  # each call lets probes go on
        told = await call_command("ask", "hello", "--url", gateway.url)
        listed = await call_command("workers", "list", "--url", gateway.url)
    assert told.exit_code == 2 and listed.exit_code == 0
    first, *causes = told.stderr.splitlines()
    assert "no worker" in first
    assert [cause.split()[0] for cause in causes] == [f"{distrusted}:", f"{wrong}:"]
    assert "certificate" in causes[0] and "known" in causes[1]
    assert all(cause.strip() in listed.stdout for cause in causes)


@pytest.mark.parametrize("columns", ["80", "60", "30"])
async def test_a_small_cost_is_shown_in_full_in_a_narrow_terminal(columns):
    async def answer(exchange: Exchange) -> None:
        await exchange.reply(200, b'{"usage": {"prompt_tokens": 1200, "completion_tokens": 30}}')

    tenants = {"acme": {"keys": [{"key": "hush"}]}, "pricing": {"m": {"prompt_per_1m": 0.03383}}}
    async with scripted_worker(answer) as worker, running_gateway(worker.url, tenants=tenants) as gateway:
        body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
        await gateway.post("/v1/chat/completions", body, headers={"x-api-key": "hush"})
        env = {"RADIXWAY_KEY": "hush", "COLUMNS": columns}
        told = await asyncio.to_thread(radixway, "usage", "--url", gateway.url, env=env)
    assert told.returncode == 0, told.stderr
    assert {"1,200", "0.000040596", "30", "USD"} <= set(told.stdout.split())
    assert "…" not in told.stdout


async def test_usage_is_shown_as_a_table_and_written_as_json_and_csv(tmp_path):
    async def answer(exchange: Exchange) -> None:
        await exchange.reply(
            200, b'{"choices": [], "usage": {"prompt_tokens": 1200, "completion_tokens": 30}}'
        )

    tenants = {
        "acme": {"keys": [{"key": "hush", "scopes": ["user", "admin"]}], "quotas": {"tokens_per_day": 9000}},
        "pricing": {"m": {"prompt_per_1m": 1000}},
    }
    async with scripted_worker(answer) as worker, running_gateway(worker.url, tenants=tenants) as gateway:
        body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
        await gateway.post("/v1/chat/completions", body, headers={"x-api-key": "hush"})

        async def run(*args, key="hush"):
            return await call_command("usage", "--url", gateway.url, *args, env={"RADIXWAY_KEY": key})

        shown = await run("--tenant", "acme")
        await run(
            "--json", str(tmp_path / "usage.json"), "--csv", str(tmp_path / "usage.csv"), "--by", "model"
        )
        refused = await run(key="wrong")
        nonsense = await run("--from", "yesterday")
        nowhere = await run("--json", str(tmp_path / "nowhere" / "usage.json"))
    assert shown.exit_code == 0, shown.stderr
    assert "acme" in shown.stdout and "1,200" in shown.stdout and "USD" in shown.stdout
    assert "tokens_per_day: 1,230 of 9,000" in shown.stdout
    (row,) = json.loads((tmp_path / "usage.json").read_text())["usage"]
    assert (row["model"], row["cost"]) == ("m", 1.2)
    header, line = (tmp_path / "usage.csv").read_text().splitlines()
    assert header.startswith("model,requests,") and line.startswith("m,1,0,0,1200,0,30,0,1.2,USD")
    assert refused.exit_code == nonsense.exit_code == 2
    assert "key" in refused.stderr and "from" in nonsense.stderr
    assert nowhere.exit_code == 2 and "No such file or directory" in nowhere.stderr


async def run_radixway(*arguments):
    """Return exit code, output and errors."""
    ran = await call_command(*arguments)
    return ran.exit_code, ran.stdout, ran.stderr


async def test_a_worker_is_drained_and_resumed_and_a_wrong_url_is_told_the_nearest():
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        known = gateway.gateway.registry.get_worker(worker.url)
        at = ("--url", gateway.url)
        code, told, _ = await run_radixway("workers", "drain", worker.url, *at)
        assert code == 0 and f"workers resume {worker.url}" in told and known.state.value == "draining"
        name = worker.url.removeprefix("http://")
        code, told, _ = await run_radixway("workers", "resume", name, *at)
        assert (code, told, known.state.value) == (0, f"resumed {name}\n", "ready")
        code, _, told = await run_radixway("workers", "drain", f"{worker.url}0", *at)
        assert code == 2 and f"did you mean {worker.url}?" in told


async def test_a_request_is_explained_step_by_step():
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        _, _, headers = await gateway.chat()
        request_id, at = headers["x-request-id"], ("--url", gateway.url)
        code, told, _ = await run_radixway("explain", request_id, *at)
        assert code == 0
        assert {"receive", "select", "answer"} <= {line.split()[2] for line in told.splitlines()}
        name = worker.url.removeprefix("http://")
        assert f"  why {name} chosen" in told and f"candidates  {name}  cost " in told
        assert not set("{}'") & set(told) and "None" not in told
        code, told, _ = await run_radixway("explain", request_id, *at, "--json")
        assert code == 0 and json.loads(told)["steps"]
        code, _, told = await run_radixway("explain", "nothing/such", *at)
        assert code == 2 and told.startswith("radixway: ") and "nothing/such" in told


async def test_ask_names_the_model_that_was_perhaps_meant():
    async with scripted_worker() as worker, running_gateway() as gateway:
        await gateway.post("/add_worker", {"url": worker.url, "models": ["qwen3-8b"]})
        code, _, told = await run_radixway("ask", "--url", gateway.url, "--model", "qwen-8b", "hello")
    assert code == 2 and "did you mean qwen3-8b?" in told


async def test_a_worker_that_never_answered_is_listed_as_down_and_in_red_on_a_terminal(free_port):
    worker = f"http://127.0.0.1:{free_port}"
    async with running_gateway(worker, wait=False) as gateway:
        known = gateway.gateway.registry.get_worker(worker)
        async with asyncio.timeout(20):
            while known.error_kind is None:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
        plain = await call_command("workers", "list", "--url", gateway.url)
        env = {"FORCE_COLOR": "1", "NO_COLOR": "", "TERM": "xterm"}
        coloured = await asyncio.to_thread(radixway, "workers", "list", "--url", gateway.url, env=env)
        asked = await asyncio.to_thread(radixway, "ask", "hello", "--url", gateway.url, env=env)
    assert "down" in plain.stdout.split() and "joining" not in plain.stdout
    red = [line for line in coloured.stdout.splitlines() if "\x1b[31m" in line]
    assert len(red) == 2 and all(worker in line for line in red)  # its row, and why
    assert any("\x1b[31m" in line and worker in line for line in asked.stderr.splitlines())
