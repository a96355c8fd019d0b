"""Administrative calls: workers, readiness, metrics, SGLang's questions."""

from radixway.core.config import WorkerSettings
from radixway.routing import DiscoveredWorker, WorkerState
from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, scripted_worker


async def test_a_worker_added_by_query_or_body_serves_and_is_listed():
    async with scripted_worker() as a, scripted_worker() as b, running_gateway() as gateway:
        async with gateway.client.post(gateway.url + "/add_worker", params={"url": a.url + "/"}) as response:
            assert (await response.json())["worker_urls"] == {a.url: 0}
        await gateway.post("/add_worker", {"worker_url": b.url, "models": ["other"], "max_batch_size": 2})
        await gateway.until(a.url, WorkerState.READY)
        await gateway.until(b.url, WorkerState.READY)
        _, listing = await gateway.get("/list_workers")
        assert listing["urls"] == [a.url, b.url]
        assert listing["workers"][0]["kv_tokens"] == 4096
        assert listing["workers"][1]["models"] == ["other"]
        _, models = await gateway.get("/v1/models")
        assert [model["id"] for model in models["data"]] == ["m", "other"]
        assert (await gateway.get("/v1/models/other"))[0] == 200
        assert (await gateway.get("/v1/models/none"))[0] == 404
        assert (await gateway.chat())[0] == 200


async def test_a_healthy_worker_serves_by_the_time_it_is_added_and_again_after_it_drained():
    async with scripted_worker() as worker, running_gateway() as gateway:
        for _ in range(2):
            await gateway.post("/add_worker", {"url": worker.url})
            assert (await gateway.chat())[0] == 200
            await gateway.post("/drain_worker", {"url": worker.url})


async def test_a_worker_that_is_not_there_yet_is_added_all_the_same():
    async with running_gateway() as gateway:
        status, told, _ = await gateway.post("/add_worker", {"url": "http://127.0.0.1:9"})
        assert (status, told["worker_urls"]) == (200, {"http://127.0.0.1:9": 0})


async def test_slimes_worker_type_is_the_role():
    async with running_gateway() as gateway:
        fields = {"url": "http://127.0.0.1:9", "worker_type": "prefill", "bootstrap_port": "8998"}
        async with gateway.client.post(gateway.url + "/add_worker", params=fields) as response:
            assert response.status == 200
        given = gateway.gateway.registry.get_worker("http://127.0.0.1:9").config
        assert (given.role, given.disaggregation.dialect) == ("prefill", "sglang")
        assert given.disaggregation.bootstrap_port == 8998
        status, told, _ = await gateway.post("/add_worker", {**fields, "worker_type": "king"})
        assert (status, told["error"]["param"]) == (400, "worker_type")
        regular = {"url": "http://127.0.0.1:10", "worker_type": "regular"}
        assert (await gateway.post("/add_worker", regular))[0] == 200


async def test_a_removed_worker_gets_nothing_more():
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        status, told, _ = await gateway.post("/remove_worker", {"url": worker.url + "/"})
        assert (status, told["worker_urls"]) == (200, {})
        assert (await gateway.chat())[0] == 503


async def test_a_draining_worker_gets_nothing_new_and_comes_back_when_added_again():
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        await gateway.post("/drain_worker", {"url": worker.url})
        assert (await gateway.chat())[0] == 503
        await gateway.post("/add_worker", {"url": worker.url})
        await gateway.until(worker.url, WorkerState.READY)
        assert (await gateway.chat())[0] == 200


async def test_a_bad_worker_is_refused_with_the_field_named():
    bad = [{"url": "ftp://x"}, {"url": 5}, {}, {"url": "http://a", "role": "king"}, {"url": "http://a:99999"}]
    async with running_gateway() as gateway:
        for body in bad:
            status, told, _ = await gateway.post("/add_worker", body)
            assert status == 400, body
            assert told["error"]["param"] in ("url", "role")
        assert (await gateway.post("/add_worker", b"{"))[0] == 400
        assert (await gateway.post("/add_worker", b"[]"))[0] == 400
        assert (await gateway.post("/remove_worker", {"url": "http://never"}))[0] == 404


async def test_an_api_key_that_fits_in_no_header_is_refused_without_being_repeated():
    async with running_gateway() as gateway:
        body = {"url": "http://a", "api_key": "hush\r\nx-evil: 1"}
        status, told, _ = await gateway.post("/add_worker", body)
        assert (status, told["error"]["param"]) == (400, "api_key")
        assert "hush" not in told["error"]["message"]


async def test_admin_calls_need_the_key_when_one_is_configured():
    async with running_gateway(gateway={"admin_key": "hush"}) as gateway:
        for path in ("/add_worker", "/remove_worker", "/drain_worker", "/flush_cache"):
            assert (await gateway.post(path, {"url": "http://a"}))[0] == 401
            wrong = {"authorization": "Bearer husk"}
            assert (await gateway.post(path, {"url": "http://a"}, headers=wrong))[0] == 401
        right = {"authorization": "Bearer hush"}
        assert (await gateway.post("/add_worker", {"url": "http://127.0.0.1:9"}, headers=right))[0] == 200
        assert (await gateway.get("/health"))[0] == 200


async def test_metrics_are_json_or_prometheus_text():
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        await gateway.chat()
        _, told = await gateway.get("/metrics")
        assert told["router"] == {"active_workers": 1, "worker_loads": {worker.url: 0}, "total_in_flight": 0}
        for path, accept in (("/metrics/prometheus", "*/*"), ("/metrics", "text/plain;version=0.0.4")):
            async with gateway.client.get(gateway.url + path, headers={"accept": accept}) as response:
                text = await response.text()
            assert 'radixway_requests_total{model="m",status="200",surface="openai.chat"} 1.0' in text
            assert "radixway_workers_ready 1.0" in text


async def test_metrics_are_json_for_whoever_takes_json_and_as_the_query_says_in_any_case():
    async with running_gateway() as gateway:
        for path, accept, kind in (
            ("/metrics", "application/json, text/plain, */*", "application/json"),
            ("/metrics?format=json", "text/plain", "application/json"),
            ("/metrics?format=prometheus", "application/json", "text/plain"),
        ):
            async with gateway.client.get(gateway.url + path, headers={"accept": accept}) as response:
                assert response.content_type == kind
        status, told = await gateway.get("/metrics?format=xml")
        assert (status, told["error"]["param"]) == (400, "format")


async def test_one_worker_has_one_url_however_it_is_spelled():
    async with running_gateway() as gateway:
        for url in ("http://A:80", "http://a/", "http://a:80/"):
            _, told, _ = await gateway.post("/add_worker", {"url": url})
            assert told == {"status": "success", "worker_urls": {"http://a": 0}}
        assert (await gateway.get("/list_workers"))[1]["urls"] == ["http://a"]
        _, told, _ = await gateway.post("/remove_worker", {"url": "http://A:80/"})
        assert told == {"status": "success", "worker_urls": {}}
        status, told, _ = await gateway.post("/remove_worker", {"url": "no url"})
        assert (status, told["error"]["param"]) == (404, "url")


async def test_metric_labels_do_not_grow_with_what_clients_invent():
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        for n in range(5):
            await gateway.chat(model=f"invented-{n}")
        async with gateway.client.get(gateway.url + "/metrics/prometheus") as response:
            assert "invented" not in await response.text()


async def test_explain_says_no_to_ids_it_never_saw():
    async with running_gateway() as gateway:
        status, told = await gateway.get("/explain/nobody")
        assert (status, told["error"]["param"]) == (404, "request_id")


async def test_sglangs_questions_reach_a_worker_and_flush_reaches_all():
    asked = []

    async def answer(exchange: Exchange) -> None:
        asked.append((exchange.method, exchange.path))
        await exchange.reply(200, b'{"model_path": "p"}')

    async with (
        scripted_worker(answer) as a,
        scripted_worker(answer) as b,
        running_gateway(a.url, b.url) as gateway,
    ):
        assert (await gateway.get("/get_model_info"))[1] == {"model_path": "p"}
        assert (await gateway.post("/concate_and_append_request", {"src_rids": [], "dst_rid": "a"}))[0] == 200
        assert asked[-1] == ("POST", "/concate_and_append_request")
        status, told, _ = await gateway.post("/flush_cache", b"")
        assert (status, told["success"]) == (200, True)
        assert asked.count(("POST", "/flush_cache")) == 2
    async with running_gateway() as gateway:
        assert (await gateway.get("/get_model_info"))[0] == 503
        assert (await gateway.get("/no/such/path"))[0] == 404


async def test_the_body_limit_holds_on_every_path():
    async with (
        scripted_worker() as worker,
        running_gateway(worker.url, gateway={"max_body_bytes": 4096}) as gateway,
    ):
        for path in ("/add_worker", "/tokenize", "/flush_cache", "/generate"):
            status, body, _ = await gateway.post(path, b"x" * 5000)
            if path != "/flush_cache":  # reads no body
                assert (status, body["error"]["code"]) == (413, "body_too_large"), path


async def test_a_worker_whose_path_is_not_ascii_has_an_ascii_name():
    async with scripted_worker() as worker, running_gateway() as gateway:
        await gateway.post("/add_worker", {"url": worker.url + "/模"})
        _, listing = await gateway.get("/list_workers")
        assert listing["workers"][0]["name"].isascii()
        assert (await gateway.post("/remove_worker", {"url": listing["urls"][0]}))[0] == 200


async def test_a_worker_that_only_prefills_is_asked_nothing():
    async with scripted_worker() as worker, running_gateway() as gateway:
        status, body, _ = await gateway.post("/add_worker", {"url": worker.url, "role": "prefill"})
        assert status == 400 and "disaggregation" in body["error"]["message"]
        added = {"url": worker.url, "role": "prefill", "disaggregation": "vllm"}
        await gateway.post("/add_worker", added)
        await gateway.until(worker.url, WorkerState.READY)
        assert (await gateway.chat())[0] == 503
        await gateway.post("/add_worker", {"url": worker.url, "kv_tokens": 5})
        _, listing = await gateway.get("/list_workers")
        assert (listing["workers"][0]["role"], listing["workers"][0]["kv_tokens"]) == ("prefill", 5)


async def test_a_wrong_method_is_told_which_are_right():
    async with running_gateway() as gateway:
        async with gateway.client.put(gateway.url + "/v1/completions", data=b"{}") as response:
            assert (response.status, response.headers["allow"]) == (405, "POST")


async def test_a_resumed_worker_has_the_settings_it_had():
    async with scripted_worker() as worker, running_gateway() as gateway:
        given = {"url": worker.url, "models": ["m"], "max_in_flight": 3, "pools": ["gold"]}
        await gateway.post("/add_worker", given)
        await gateway.until(worker.url, WorkerState.READY)
        known = gateway.gateway.registry.get_worker(worker.url)
        before = known.config
        await gateway.post("/drain_worker", {"url": worker.url})
        assert known.state is WorkerState.DRAINING
        status, _, _ = await gateway.post("/resume_worker", {"url": worker.url})
        assert status == 200 and known.state is WorkerState.READY
        assert known.config == before and known.config.max_in_flight == 3
        assert (await gateway.post("/resume_worker", {"url": worker.url}))[0] == 200  # as it is
        gateway.gateway.membership.check()


async def test_a_worker_that_its_source_drains_is_not_resumed():
    async with scripted_worker() as worker, running_gateway() as gateway:
        membership, section = gateway.gateway.membership, WorkerSettings(url=worker.url)
        membership.set_members("pods", [DiscoveredWorker(section)])
        membership.set_members("pods", [DiscoveredWorker(section, draining=True)])
        status, said, _ = await gateway.post("/resume_worker", {"url": worker.url})
        assert (status, said["error"]["param"]) == (409, "url") and "pods" in said["error"]["message"]
        status, said, _ = await gateway.post("/resume_worker", {"url": "http://127.0.0.1:1"})
        assert (status, said["error"]["code"]) == (404, "worker_not_found")
        membership.check()
