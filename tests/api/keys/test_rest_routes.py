"""Keys, teams, users and budgets made while a gateway runs, over its own paths."""

from __future__ import annotations

import json
import sqlite3
from contextlib import asynccontextmanager

import pytest

from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

ADMIN = "the-admin-key"
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
USAGE = {"prompt_tokens": 100, "completion_tokens": 50}
PRICING = {"m*": {"prompt_per_1m": 1.0, "completion_per_1m": 2.0}}
COST = 100 / 1e6 + 2 * 50 / 1e6


def bearer(key: str) -> dict[str, dict[str, str]]:
    return {"headers": {"authorization": f"Bearer {key}"}}


async def counting(exchange) -> None:
    """An answer whose figures never change."""
    reply = {"choices": [{"index": 0, "message": {"content": "ok"}}], "usage": USAGE}
    await exchange.reply(200, json.dumps(reply).encode())


@asynccontextmanager
async def keys_gateway(tmp_path, behaviour=counting, models=("m",), **more):
    more = {"tenants": {"pricing": PRICING}, "keys": {"sync_s": 0.05}} | more
    more["keys"] = {"database": f"sqlite:///{tmp_path}/access.sqlite"} | more["keys"]
    async with (
        scripted_worker(behaviour, models=[*models]) as worker,
        running_gateway(worker.url, gateway={"admin_key": ADMIN}, **more) as gateway,
    ):
        yield gateway


async def call(gateway, method: str, path: str, body=None, key: str = ADMIN, status: int = 200):
    async with gateway.client.request(method, gateway.url + path, json=body, **bearer(key)) as reply:
        found = await reply.json(content_type=None)
        assert reply.status == status, found
        return found


async def ask(gateway, key: str, **fields):
    return await gateway.post("/v1/chat/completions", CHAT | fields, **bearer(key))


async def test_a_key_works_at_once_and_is_shown_once(tmp_path):
    async with keys_gateway(tmp_path) as gateway:
        assert (await gateway.post("/v1/chat/completions", CHAT))[0] == 200, "no key is needed yet"
        assert (await call(gateway, "GET", "/health"))["degraded"] == []
        made = await call(gateway, "POST", "/keys", {"alias": "ci", "models": ["m"]}, status=201)
        key = made["key"]
        assert key.startswith("sk-") and len(key) > 40
        assert (await ask(gateway, key))[0] == 200
        assert (await gateway.post("/v1/chat/completions", CHAT))[0] == 401, "and now one is"
        assert (await ask(gateway, "sk-another"))[0] == 401
        assert (await ask(gateway, key, model="other"))[1]["error"]["param"] == "model"
        shown = await call(gateway, "GET", f"/keys/{made['id']}")
        assert key not in json.dumps([shown, await call(gateway, "GET", "/keys")])
        assert shown["shown"] == f"sk-…{key[-4:]}" and shown["state"] == "active"
    with sqlite3.connect(tmp_path / "access.sqlite") as database:
        stored = "".join(database.iterdump())
    assert key not in stored and key[3:] not in stored


async def test_a_deleted_key_ends_and_the_gateway_stays_closed(tmp_path):
    async with keys_gateway(tmp_path) as gateway:
        made = await call(gateway, "POST", "/keys", {}, status=201)
        await call(gateway, "DELETE", f"/keys/{made['id']}")
        assert (await ask(gateway, made["key"]))[0] == 401
        assert (await gateway.post("/v1/chat/completions", CHAT))[0] == 401
        await call(gateway, "GET", f"/keys/{made['id']}", status=404)


async def test_a_rotated_key_overlaps_for_its_grace_and_keeps_what_it_spent(tmp_path):
    async with keys_gateway(tmp_path) as gateway:
        made = await call(gateway, "POST", "/keys", {}, status=201)
        assert (await ask(gateway, made["key"]))[0] == 200
        second = await call(gateway, "POST", f"/keys/{made['id']}/rotate", {"grace": "1h"})
        assert second["id"] == made["id"] and second["key"] != made["key"]
        assert [(await ask(gateway, key))[0] for key in (made["key"], second["key"])] == [200, 200]
        third = await call(gateway, "POST", f"/keys/{made['id']}/rotate")
        statuses = [(await ask(gateway, each["key"]))[0] for each in (made, second, third)]
        assert statuses == [401, 401, 200]
        shown = await call(gateway, "GET", f"/keys/{made['id']}")
        assert shown["spend"] == pytest.approx(4 * COST)


async def test_a_blocked_and_an_expired_key_say_so(tmp_path):
    async with keys_gateway(tmp_path) as gateway:
        made = await call(gateway, "POST", "/keys", {}, status=201)
        await call(gateway, "POST", f"/keys/{made['id']}/block")
        status, body, _ = await ask(gateway, made["key"])
        assert (status, body["error"]["code"]) == (403, "key_blocked")
        await call(gateway, "POST", f"/keys/{made['id']}/unblock")
        assert (await ask(gateway, made["key"]))[0] == 200
        await call(gateway, "PATCH", f"/keys/{made['id']}", {"expires": "2020-01-01T00:00:00Z"})
        status, body, _ = await ask(gateway, made["key"])
        assert (status, body["error"]["code"]) == (401, "key_expired")


async def test_a_key_may_be_held_to_endpoints(tmp_path):
    async with keys_gateway(tmp_path) as gateway:
        made = await call(gateway, "POST", "/keys", {"endpoints": ["/v1/embeddings"]}, status=201)
        status, body, _ = await ask(gateway, made["key"])
        assert (status, body["error"]["code"]) == (403, "endpoint_not_allowed")
        listed = await call(gateway, "GET", "/v1/models", key=made["key"], status=403)
        assert listed["error"]["code"] == "endpoint_not_allowed"
        assert (await call(gateway, "GET", "/key/info", key=made["key"]))["info"]["token"] == made["id"]
        await call(gateway, "PATCH", f"/keys/{made['id']}", {"endpoints": ["/chat/*"]})
        assert (await ask(gateway, made["key"]))[0] == 200


@pytest.mark.parametrize("payer", ["key", "user", "team"])
async def test_each_budget_ends_requests_by_its_name(tmp_path, payer):
    async with keys_gateway(tmp_path) as gateway:
        limit = {"max_budget": 1.5 * COST}
        await call(gateway, "POST", "/teams", {"id": "red"} | (limit if payer == "team" else {}), status=201)
        await call(gateway, "POST", "/users", {"id": "ann"} | (limit if payer == "user" else {}), status=201)
        key = {"team": "red", "user": "ann"} | (limit if payer == "key" else {})
        made = await call(gateway, "POST", "/keys", key, status=201)
        small = {"max_tokens": 1}
        statuses = [(await ask(gateway, made["key"], **small))[0] for _ in range(3)]
        assert statuses == [200, 200, 429]
        status, body, headers = await ask(gateway, made["key"], **small)
        error = body["error"]
        assert (status, error["code"], error["param"]) == (429, "budget_exceeded", payer)
        assert error["type"] == "budget_exceeded" and "0.0004 of 0.0003 USD" in error["message"]
        assert headers["x-should-retry"] == "false"
        budgets = (await call(gateway, "GET", "/budgets"))["budgets"]
        assert [(each["kind"], each["budget_state"]) for each in budgets] == [(payer, "exceeded")]
        await call(gateway, "PATCH", f"/{payer}s/{budgets[0]['id']}", {"max_budget": 1})
        assert (await ask(gateway, made["key"]))[0] == 200


async def test_a_key_has_rates_of_its_own(tmp_path):
    async with keys_gateway(tmp_path) as gateway:
        made = await call(gateway, "POST", "/keys", {"rpm_limit": 1, "alias": "ci"}, status=201)
        assert (await ask(gateway, made["key"]))[0] == 200
        status, body, headers = await ask(gateway, made["key"])
        assert (status, body["error"]["code"]) == (429, "requests_per_minute")
        assert "the key 'ci'" in body["error"]["message"] and int(headers["retry-after"]) > 0


async def test_usage_is_told_by_key_user_team_and_model(tmp_path):
    async with keys_gateway(tmp_path) as gateway:
        await call(gateway, "POST", "/teams", {"id": "red"}, status=201)
        made = await call(gateway, "POST", "/keys", {"team": "red", "user": "ann"}, status=201)
        for _ in range(3):
            await ask(gateway, made["key"])
        report = await call(gateway, "GET", "/spend?by=key,user,team,model&team=red")
        row = report["spend"][0]
        assert (row["key"], row["user"], row["team"], row["model"]) == (made["id"], "ann", "red", "m")
        assert (row["requests"], row["prompt_tokens"], row["completion_tokens"]) == (3, 300, 150)
        assert row["cost"] == pytest.approx(3 * COST) and row["currency"] == "USD"
        assert (await call(gateway, "GET", "/usage?tenant=red"))["usage"][0]["requests"] == 3


async def test_what_is_stored_outlives_the_gateway(tmp_path):
    async with keys_gateway(tmp_path) as gateway:
        made = await call(gateway, "POST", "/keys", {"max_budget": 1.5 * COST}, status=201)
        for _ in range(2):
            await ask(gateway, made["key"], max_tokens=1)
    async with keys_gateway(tmp_path) as gateway:
        assert (await gateway.post("/v1/chat/completions", CHAT))[0] == 401
        assert (await ask(gateway, made["key"]))[1]["error"]["code"] == "budget_exceeded"


async def test_two_gateways_hear_of_each_other(tmp_path):
    async with keys_gateway(tmp_path) as first, keys_gateway(tmp_path) as second:
        made = await call(first, "POST", "/keys", {"max_budget": 1.5 * COST}, status=201)
        await second.gateway.access.sync()
        for gateway in (first, second):
            assert (await ask(gateway, made["key"], max_tokens=1))[0] == 200
            await gateway.gateway.access.sync()
        await first.gateway.access.sync()
        for gateway in (first, second):
            assert (await ask(gateway, made["key"]))[1]["error"]["code"] == "budget_exceeded"
        await call(second, "DELETE", f"/keys/{made['id']}")
        await first.gateway.access.sync()
        assert (await ask(first, made["key"]))[0] == 401


async def test_lists_are_searched_ordered_and_cut(tmp_path):
    async with keys_gateway(tmp_path) as gateway:
        for team in ("blue", "red"):
            await call(gateway, "POST", "/teams", {"id": team, "members": [{"user_id": "Anna"}]}, status=201)
        for number in range(3):
            body = {"alias": f"laptop-{number}", "team": ("blue", "red")[number % 2], "user": "anna"}
            await call(gateway, "POST", "/keys", body, status=201)
        await call(gateway, "POST", "/users", {"id": "anna", "email": "Anna@example.org"}, status=201)

        async def names(path, kind="keys", name="alias"):
            found = await call(gateway, "GET", path)
            return [record[name] for record in found[kind]], found["total"]

        assert await names("/keys?order=newest&limit=2") == (["laptop-2", "laptop-1"], 3)
        assert await names("/keys?q=RED") == (["laptop-1"], 1)
        assert await names("/teams", "teams", "keys") == ([2, 1], 2)
        assert await names("/teams?q=anna&order=newest&limit=1", "teams", "id") == (["red"], 2)
        assert await names("/users?q=example.org", "users", "keys") == ([3], 1)
        assert await names("/users?q=blue", "users", "id") == ([], 0)
        for wrong in ("/keys?order=best", "/teams?limit=0", "/users?team=red"):
            error = (await call(gateway, "GET", wrong, status=400))["error"]
            assert error["param"] in wrong


async def test_a_wrong_field_is_named(tmp_path):
    async with keys_gateway(tmp_path) as gateway:
        for path, body, param in (
            ("/keys", {"max_budget": -1}, "max_budget"),
            ("/keys", {"max_budget": "1"}, "max_budget"),
            ("/keys", {"budget_duration": "soon"}, "budget_duration"),
            ("/keys", {"duration": "0d"}, "duration"),
            ("/keys", {"expires": "tomorrow"}, "expires"),
            ("/keys", {"rpm_limit": 0}, "rpm_limit"),
            ("/keys", {"scopes": ["root"]}, "scopes"),
            ("/keys", {"endpoints": ["chat"]}, "endpoints"),
            ("/keys", {"team": "nobody"}, "team"),
            ("/keys", {"key": "too-short"}, "key"),
            ("/keys", {"key": "a-key-that-is-no-sk"}, "key"),
            ("/keys", {"budget": 1}, "budget"),
            ("/teams", {"id": "no name"}, "id"),
            ("/users", {"models": "m"}, "models"),
        ):
            assert (await call(gateway, "POST", path, body, status=400))["error"]["param"] == param, body


async def test_an_owner_keeps_its_id(tmp_path):
    async with keys_gateway(tmp_path) as gateway:
        for path in ("/teams", "/users"):
            await call(gateway, "POST", path, {"id": "one"}, status=201)
            refused = await call(gateway, "PATCH", f"{path}/one", {"id": "two", "max_budget": 1}, status=400)
            assert refused["error"]["param"] == "id"
            shown = await call(gateway, "PATCH", f"{path}/one", {"id": "one", "max_budget": 2})
            assert (shown["id"], shown["max_budget"]) == ("one", 2)


async def test_names_are_taken_once(tmp_path):
    tenants = {"pricing": PRICING, "yaml-team": {}}
    async with keys_gateway(tmp_path, tenants=tenants) as gateway:
        await call(gateway, "POST", "/keys", {"alias": "a", "key": "sk-0123456789abcdef"}, status=201)
        await call(gateway, "POST", "/keys", {"alias": "a"}, status=409)
        again = await call(gateway, "POST", "/keys", {"key": "sk-0123456789abcdef"}, status=409)
        assert again["error"]["param"] == "key"
        await call(gateway, "POST", "/teams", {"id": "red"}, status=201)
        await call(gateway, "POST", "/teams", {"id": "red"}, status=409)
        await call(gateway, "POST", "/teams", {"id": "yaml-team"}, status=409)
        made = await call(gateway, "POST", "/keys", {"team": "yaml-team"}, status=201)
        assert (await ask(gateway, made["key"]))[0] == 200


async def test_a_team_takes_its_keys_along(tmp_path):
    async with keys_gateway(tmp_path) as gateway:
        await call(gateway, "POST", "/teams", {"id": "red", "models": ["m"]}, status=201)
        made = await call(gateway, "POST", "/keys", {"team": "red", "models": ["*"]}, status=201)
        assert (await ask(gateway, made["key"]))[0] == 200
        assert (await ask(gateway, made["key"], model="n"))[0] == 404, "a key may not widen its team's models"
        await call(gateway, "PATCH", "/teams/red", {"blocked": True})
        assert (await ask(gateway, made["key"]))[1]["error"]["code"] == "team_blocked"
        assert (await call(gateway, "DELETE", "/teams/red"))["deleted_keys"] == [made["id"]]
        assert (await ask(gateway, made["key"]))[0] == 401


async def test_only_administrators_change_keys(tmp_path):
    async with keys_gateway(tmp_path) as gateway:
        made = await call(gateway, "POST", "/keys", {}, status=201)
        admin = await call(gateway, "POST", "/keys", {"scopes": ["admin"]}, status=201)
        for method, path in (("GET", "/keys"), ("POST", "/keys"), ("GET", "/teams"), ("GET", "/spend")):
            await call(gateway, method, path, key=made["key"], status=403)
            await call(gateway, method, path, key="sk-unknown", status=401)
        await call(gateway, "GET", "/keys", key=admin["key"])
        await call(gateway, "DELETE", f"/keys/{admin['id']}")
        await call(gateway, "GET", "/keys", key=admin["key"], status=401)


async def test_without_an_administrator_there_is_no_store(tmp_path):
    async with scripted_worker(counting) as worker, running_gateway(worker.url) as gateway:
        status, body, _ = await gateway.post("/keys", {})
        assert (status, body["error"]["code"]) == (404, "keys_off")
        assert "gateway.admin_key" in body["error"]["message"]


async def test_chats_and_kept_responses_are_closed_with_the_first_key(tmp_path):
    async with keys_gateway(tmp_path) as gateway:
        made = await call(gateway, "POST", "/keys", {"user": "ann"}, status=201)
        status, body = await gateway.get("/v1/responses/resp_0")
        assert (status, body["error"]["code"]) == (401, "invalid_api_key")
        assert (await gateway.get("/v1/responses/resp_0", **bearer(made["key"])))[0] == 404
        await call(gateway, "POST", f"/keys/{made['id']}/block")
        assert (await gateway.get("/v1/responses/resp_0", **bearer(made["key"])))[0] in (401, 403)


async def test_erasing_a_user_ends_the_users_keys(tmp_path):
    async with keys_gateway(tmp_path) as gateway:
        await call(gateway, "POST", "/users", {"id": "ann"}, status=201)
        made = await call(gateway, "POST", "/keys", {"user": "ann"}, status=201)
        other = await call(gateway, "POST", "/keys", {}, status=201)
        for each in (made, other):
            assert (await ask(gateway, each["key"]))[0] == 200
        erased = await call(gateway, "POST", "/admin/erase", {"tenant": "default", "user": "ann"})
        assert erased["rooms"]["keys"]["status"] == "erased"
        assert [(await ask(gateway, each["key"]))[0] for each in (made, other)] == [401, 200]
        rows = (await call(gateway, "GET", "/spend?by=user"))["spend"]
        assert [row["user"] for row in rows] == [""]
        assert (await call(gateway, "GET", "/users"))["users"] == []


async def test_what_counts_as_spent_is_set_though_a_period_ended_unseen(tmp_path):
    async with keys_gateway(tmp_path, keys={"sync_s": 60}) as gateway:
        body = {"max_budget": 1, "budget_duration": "1h"}
        made = await call(gateway, "POST", "/keys", body, status=201)
        gateway.gateway.access.directory.accounts["key", made["id"]].resets_at -= 7200
        changed = await call(gateway, "PATCH", f"/keys/{made['id']}", {"spend": 0.5})
        assert changed["spend"] == 0.5
        assert (await call(gateway, "GET", f"/keys/{made['id']}"))["spend"] == 0.5
