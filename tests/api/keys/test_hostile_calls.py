"""Calls about keys that mean harm, or are merely odd: refused in words, and nothing leaks or breaks."""

from __future__ import annotations

import logging
from functools import reduce

from api.keys.test_rest_routes import ADMIN, CHAT, ask, bearer, call, keys_gateway

DEEP: dict = {"a": reduce(lambda inner, _: [inner], range(300), [])}


async def test_an_odd_value_is_refused_by_its_name(tmp_path):
    async with keys_gateway(tmp_path) as gateway:
        for path, body, param in (
            ("/keys", {"alias": "a\u0000b"}, "alias"),
            ("/keys", {"alias": "\u001b[31mred"}, "alias"),
            ("/keys", {"expires": "9999-12-31T23:59:59-12:00"}, "expires"),
            ("/keys", {"expires": "9999-12-31T23:59:59.999999"}, "expires"),
            ("/keys", {"metadata": DEEP}, "metadata"),
            ("/key/generate", {"tags": DEEP}, "metadata"),
            ("/keys", {"expires": "0001-01-01T00:00:00+12:00"}, "expires"),
            ("/keys", {"key": "sk-with a space in it"}, "key"),
            ("/keys", {"max_budget": 1e13}, "max_budget"),
            ("/users", {"id": "a\nb"}, "id"),
            ("/user/new", {"teams": 5}, "teams"),
            ("/user/new", {"auto_create_key": "no"}, "auto_create_key"),
            ("/key/generate", {"tags": ["a"], "metadata": "text"}, "metadata"),
        ):
            assert (await call(gateway, "POST", path, body, status=400))["error"]["param"] == param, body
        for listed in ("/keys", "/users", "/teams"):
            assert (await call(gateway, "GET", listed))["total"] == 0, "nothing is left of it"


async def test_odd_days_pages_and_names_are_asked_for_in_vain(tmp_path):
    async with keys_gateway(tmp_path) as gateway:
        for path, status in {
            "/spend?to=0001-01-01": 400,
            "/spend?from=2026-02-30": 400,
            "/spend?key=%00": 400,
            "/spend/logs?user_id=%00": 400,
            "/spend/logs?start_date=soon": 400,
            "/spend/logs?start_date=2026-11-01%2000:00:00&end_date=2026-11-30": 200,
            "/keys/%ff": 404,
            "/key/info?key=%ff": 404,
            "/key/list?page=0": 400,
            "/key/list?page=99999999999999999999": 200,
            "/keys?offset=99999999999999999999": 200,
            "/users/%27%3B%20DROP%20TABLE%20access_records%3B--": 404,
        }.items():
            await call(gateway, "GET", path, status=status)


async def test_tags_are_kept_beside_other_metadata_in_any_order(tmp_path):
    async with keys_gateway(tmp_path) as gateway:
        for body in ({"tags": ["x"], "metadata": {"a": 1}}, {"metadata": {"a": 1}, "tags": ["x"]}):
            made = await call(gateway, "POST", "/key/generate", body)
            assert made["metadata"] == {"tags": ["x"], "a": 1}


async def test_a_key_in_a_path_or_query_gets_into_no_log(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    audit = {"guard": {"audit": {"enabled": True, "path": str(tmp_path / "audit")}}}
    async with keys_gateway(tmp_path, **audit) as gateway:
        key = (await call(gateway, "POST", "/keys", {}, status=201))["key"]
        await call(gateway, "PATCH", f"/keys/{key}", {"alias": "a"})
        await call(gateway, "GET", f"/key/info?key={key}")
        await call(gateway, "GET", f"/keys/{key}", key="sk-unknown", status=401)
        await call(gateway, "GET", f"/nowhere/{key}", status=404)
        again = await call(gateway, "POST", f"/key/{key}/regenerate", {"grace_period": "1h"})
        await call(gateway, "DELETE", f"/keys/{again['key']}")
        own = [record for record in caplog.records if record.name.startswith("radixway")]
        told = [str(record.__dict__) for record in own]
        told.append(str(await call(gateway, "GET", "/audit")))
        assert any("/regenerate" in each for each in told)
        assert [each for each in told if key in each or again["key"] in each] == []


async def test_others_keys_are_not_there_for_a_key(tmp_path):
    async with keys_gateway(tmp_path) as gateway:
        one, other = [await call(gateway, "POST", "/keys", {}, status=201) for _ in range(2)]
        for given in (other["id"], other["key"], "sk-not-there-at-all"):
            refused = await call(gateway, "GET", f"/key/info?key={given}", key=one["key"], status=403)
            assert given not in str(refused)
        assert ADMIN not in str(await call(gateway, "GET", "/key/info", key=one["key"]))


async def test_a_proxys_key_ends_like_any_other(tmp_path):
    async with keys_gateway(tmp_path) as gateway:
        await call(gateway, "POST", "/teams", {"id": "red", "max_budget": 0.0003}, status=201)
        made = await call(gateway, "POST", "/keys", {"scopes": ["trusted"]}, status=201)
        named = {"headers": bearer(made["key"])["headers"] | {"x-tenant-id": "red"}}

        async def ask_as_red():
            status, body, _ = await gateway.post("/v1/chat/completions", CHAT | {"max_tokens": 1}, **named)
            return status, body.get("error", {}).get("code")

        assert [await ask_as_red() for _ in range(3)] == [(200, None)] * 2 + [(429, "budget_exceeded")]
        await call(gateway, "PATCH", "/teams/red", {"max_budget": None, "blocked": True})
        assert await ask_as_red() == (403, "team_blocked")
        await call(gateway, "PATCH", "/teams/red", {"blocked": False})
        await call(gateway, "PATCH", f"/keys/{made['id']}", {"endpoints": ["/v1/embeddings"]})
        assert await ask_as_red() == (403, "endpoint_not_allowed")
        await call(gateway, "POST", f"/keys/{made['id']}/block")
        assert await ask_as_red() == (403, "key_blocked")
        await call(
            gateway, "PATCH", f"/keys/{made['id']}", {"expires": "2020-01-01T00:00:00Z", "blocked": None}
        )
        assert await ask_as_red() == (401, "key_expired")


async def test_a_proxys_key_narrows_the_models_of_the_team_that_it_names(tmp_path):
    async with keys_gateway(tmp_path) as gateway:
        await call(gateway, "POST", "/teams", {"id": "red", "models": ["m", "n"]}, status=201)
        body = {"scopes": ["trusted"], "models": ["n", "o"]}
        made = await call(gateway, "POST", "/keys", body, status=201)
        named = {"headers": bearer(made["key"])["headers"] | {"x-tenant-id": "red"}}
        body = (await gateway.post("/v1/chat/completions", CHAT, **named))[1]
        assert body["error"]["param"] == "model"
        assert (await gateway.get("/v1/models", **named))[1]["data"] == []
        await call(gateway, "PATCH", f"/keys/{made['id']}", {"models": ["m", "o"]})
        assert (await gateway.post("/v1/chat/completions", CHAT, **named))[0] == 200
        assert [each["id"] for each in (await gateway.get("/v1/models", **named))[1]["data"]] == ["m"]


async def test_a_key_made_for_an_owner_that_another_gateway_deletes_goes_with_it(tmp_path):
    keys = {"sync_s": 60}
    async with keys_gateway(tmp_path, keys=keys) as first, keys_gateway(tmp_path, keys=keys) as second:
        await call(first, "POST", "/users", {"id": "ann", "max_budget": 1}, status=201)
        made = await call(second, "POST", "/keys", {"user": "ann"}, status=201)
        assert (await call(first, "DELETE", "/users/ann"))["deleted_keys"] == [made["id"]]
        await second.gateway.access.sync()
        assert (await ask(second, made["key"]))[0] == 401


async def test_a_text_that_a_key_had_before_is_not_given_to_another(tmp_path):
    text = {"key": "sk-0123456789abcdef"}
    async with keys_gateway(tmp_path) as gateway:
        first = await call(gateway, "POST", "/keys", text, status=201)
        again = {"key": first["id"], "new_key": text["key"], "grace_period": "1h"}
        await call(gateway, "POST", "/key/regenerate", again, status=409)
        await call(gateway, "POST", f"/keys/{first['id']}/rotate", {"grace": "1h"})
        refused = await call(gateway, "POST", "/keys", text, status=409)
        assert refused["error"]["param"] == "key"
        await call(gateway, "POST", f"/keys/{first['id']}/rotate")
        await call(gateway, "POST", "/keys", text, status=201)
        assert (await ask(gateway, text["key"]))[0] == 200


async def test_who_is_made_again_owes_nothing_of_before(tmp_path):
    keys = {"sync_s": 60}
    async with keys_gateway(tmp_path, keys=keys) as first, keys_gateway(tmp_path, keys=keys) as second:
        await call(first, "POST", "/users", {"id": "ann"}, status=201)
        made = await call(first, "POST", "/keys", {"user": "ann"}, status=201)
        await second.gateway.access.sync()
        assert (await ask(second, made["key"]))[0] == 200
        await call(first, "DELETE", "/users/ann")
        await second.gateway.access.sync()
        again = await call(first, "POST", "/users", {"id": "ann"}, status=201)
        assert (again["spend"], again["total_spend"]) == (0, 0)
