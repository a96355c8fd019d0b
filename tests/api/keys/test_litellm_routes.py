"""LiteLLM's paths, by its own client and by OpenAI's, against a gateway in a process of its own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from api.keys.test_rest_routes import ADMIN, COST, ask, call, keys_gateway

LITELLM = Path("~/.cache/radixway-bench/litellm/bin/python").expanduser()
"""A Python with `litellm[proxy]`; benchmarks/litellm.md says how it is made."""

CLIENT = r"""
import json, sys
import litellm
from litellm.proxy.client import Client
from litellm.proxy.client.users import UsersManagementClient

url, admin = sys.argv[1:]
client = Client(base_url=url, api_key=admin)
users = UsersManagementClient(url, admin)
made = client.keys.generate(models=["m"], duration="30d", key_alias="ci", user_id="ann")
key = made["key"]
told = {"key": key[:3], "models": made["models"], "expires": bool(made["expires"])}
told["info"] = client.keys.info(key)["info"]["key_alias"]
listed = client.keys.list(return_full_object=True)
told["listed"] = [listed["total_count"], listed["keys"][0]["key_alias"]]
messages = [{"role": "user", "content": "hello"}]
ask = dict(model="openai/m", api_base=url + "/v1", messages=messages, num_retries=0)
told["answer"] = litellm.completion(api_key=key, **ask).choices[0].message.content
client.keys.update(key, key_alias="renamed")
told["renamed"] = client.keys.info(key)["info"]["key_alias"]
poor = client.http.request("POST", "/key/generate", json={"max_budget": 0, "models": ["m"]})["key"]
try:
    litellm.completion(api_key=poor, max_retries=0, **ask)
except Exception as error:
    told["poor"] = [type(error).__name__, "budget" in str(error)]
told["deleted"] = client.keys.delete(keys=[key])["deleted_keys"] == [key]
try:
    litellm.completion(api_key=key, **ask)
except Exception as error:
    told["after"] = type(error).__name__
team = client.http.request("POST", "/team/new", json={"team_alias": "red", "max_budget": 5})
told["teams"] = [each["team_alias"] for each in client.teams.list()]
user = users.create_user({"user_id": "bob", "teams": [team["team_id"]], "max_budget": 1})
told["user"] = [user["user_id"], user["key"][:3], users.get_user("bob")["user_info"]["max_budget"]]
told["users"] = users.list_users()[0]["user_id"] if isinstance(users.list_users(), list) else "bob"
users.delete_user(["bob"])
print(json.dumps(told))
"""


async def test_its_own_client_does_what_it_does_with_its_proxy(tmp_path):
    if not LITELLM.exists():
        pytest.skip(f"LITELLM IS MISSING: there is no {LITELLM}, so its client was not tried")
    async with keys_gateway(tmp_path) as gateway:
        import asyncio

        process = await asyncio.create_subprocess_exec(
            str(LITELLM),
            *("-c", CLIENT, gateway.url, ADMIN),
            env={"LITELLM_LOCAL_MODEL_COST_MAP": "True", "PATH": "/usr/bin:/bin"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()[-3000:]
    assert json.loads(out.splitlines()[-1]) == {
        "key": "sk-",
        "models": ["m"],
        "expires": True,
        "info": "ci",
        "listed": [1, "ci"],
        "answer": "ok",
        "renamed": "renamed",
        "poor": ["RateLimitError", True],
        "deleted": True,
        "after": "AuthenticationError",
        "teams": ["red"],
        "user": ["bob", "sk-", 1.0],
        "users": "bob",
    }


async def test_openais_client_reads_the_end_of_a_budget(tmp_path):
    openai = pytest.importorskip("openai", reason="THE OPENAI PACKAGE IS MISSING")
    async with keys_gateway(tmp_path) as gateway:
        made = await call(gateway, "POST", "/key/generate", {"max_budget": 0})
        client = openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=made["key"], max_retries=5)
        with pytest.raises(openai.RateLimitError) as refused:
            await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}])
        assert refused.value.code == "budget_exceeded" and refused.value.param == "key"
        refusals = (await call(gateway, "GET", "/keys"))["keys"]
        assert refusals[0]["spend"] == 0


async def test_keys_are_updated_regenerated_blocked_and_deleted_by_their_own_text(tmp_path):
    async with keys_gateway(tmp_path) as gateway:
        made = await call(gateway, "POST", "/key/generate", {"key_alias": "a", "tags": ["x"], "aliases": {}})
        assert made["metadata"] == {"tags": ["x"]} and made["token"] == made["token_id"]
        changed = await call(gateway, "POST", "/key/update", {"key": made["key"], "rpm_limit": 5})
        assert changed["rpm_limit"] == 5
        again = await call(gateway, "POST", "/key/regenerate", {"key": made["key"], "grace_period": "1h"})
        assert again["token"] == made["token"] and again["key"] != made["key"]
        own = await call(gateway, "GET", "/key/info", key=again["key"])
        assert own["info"]["key_alias"] == "a"
        await call(gateway, "GET", f"/key/info?key={made['token']}", key="sk-unknown", status=401)
        assert (await call(gateway, "POST", "/key/block", {"key": again["key"]}))["blocked"] is True
        assert (await ask(gateway, again["key"]))[0] == 403
        await call(gateway, "POST", "/key/unblock", {"key": made["token"]})
        assert (await ask(gateway, again["key"]))[0] == 200
        assert (await call(gateway, "POST", "/key/delete", {"key_aliases": ["a"]}))["deleted_keys"] == ["a"]
        await call(gateway, "GET", f"/key/info?key={made['token']}", status=404)


async def test_teams_users_and_spending_have_its_shapes(tmp_path):
    async with keys_gateway(tmp_path) as gateway:
        team = await call(gateway, "POST", "/team/new", {"team_alias": "red", "budget_duration": "30d"})
        body = {"team_id": team["team_id"], "member": {"role": "admin", "user_id": "ann"}}
        joined = await call(gateway, "POST", "/team/member_add", body)
        assert joined["members_with_roles"] == [{"user_id": "ann", "role": "admin"}]
        user = await call(gateway, "POST", "/user/new", {"user_id": "ann", "team_id": team["team_id"]})
        assert user["teams"] == [team["team_id"]]
        await ask(gateway, user["key"])
        info = await call(gateway, "GET", f"/team/info?team_id={team['team_id']}")
        assert info["team_info"]["spend"] == pytest.approx(0.0002) and len(info["keys"]) == 1
        assert info["team_info"]["budget_reset_at"] is not None
        rows = await call(gateway, "GET", f"/spend/logs?api_key={user['token']}")
        assert (rows[0]["spend"], rows[0]["total_tokens"]) == (pytest.approx(0.0002), 150)
        report = await call(gateway, "GET", "/global/spend/report?group_by=team")
        assert report[0]["teams"][0]["total_spend"] == pytest.approx(0.0002)
        assert (await call(gateway, "POST", "/user/delete", {"user_ids": ["ann"]}))["deleted_keys"]
        await call(gateway, "GET", "/user/info?user_id=ann", status=404)
        await call(gateway, "POST", "/team/delete", {"team_ids": [team["team_id"]]})
        assert await call(gateway, "GET", "/team/list") == []


async def test_spending_is_told_by_day_key_and_user_in_the_currency_of_budgets(tmp_path):
    prices = {"m": {"prompt_per_1m": 1, "completion_per_1m": 2}, "n": {"prompt_per_1m": 5, "currency": "EUR"}}
    async with keys_gateway(tmp_path, models=["m", "n"], tenants={"pricing": prices}) as gateway:
        made = [await call(gateway, "POST", "/key/generate", {"user_id": user}) for user in ("ann", "bob")]
        for key, model in ((made[0], "m"), (made[0], "n"), (made[1], "m")):
            assert (await ask(gateway, key["key"], model=model))[0] == 200
        tokens = [key["token"] for key in made]
        rows = await call(gateway, "GET", f"/spend/logs?api_key={made[0]['key']}")
        assert [(row["model"], row["spend"]) for row in rows] == [("m", pytest.approx(COST)), ("n", 0)]
        assert {row["total_tokens"] for row in rows} == {150}
        rows = await call(gateway, "GET", "/spend/logs?user_id=bob&model=m&team_id=default")
        assert [row["api_key"] for row in rows] == [tokens[1]]
        assert await call(gateway, "GET", "/spend/logs?team_id=red") == []
        today = rows[0]["startTime"][:10]
        dates = f"/spend/logs?start_date={today}&end_date={today}"
        (day,) = await call(gateway, "GET", dates)
        assert day["users"] == {"ann": pytest.approx(COST), "bob": pytest.approx(COST)}
        assert day["models"] == {"m": pytest.approx(2 * COST), "n": 0}
        assert (day["spend"], day[tokens[0]]) == (pytest.approx(2 * COST), pytest.approx(COST))
        assert len(await call(gateway, "GET", dates + "&summarize=false")) == 3
        (report,) = await call(gateway, "GET", "/global/spend/report?group_by=user")
        assert [each["total_spend"] for each in report["users"]] == [pytest.approx(COST)] * 2
        await call(gateway, "POST", "/key/delete", {"keys": [tokens[0]]})
        assert len(await call(gateway, "GET", f"/spend/logs?api_key={tokens[0]}")) == 2, "as it was"


async def test_what_of_spending_is_not_kept_is_refused_by_its_name(tmp_path):
    async with keys_gateway(tmp_path) as gateway:
        for query, status, param in (
            ("/spend/logs?request_id=1", 400, "request_id"),
            ("/spend/logs?end_user=ann", 400, "end_user"),
            ("/spend/logs?summarize=perhaps", 400, "summarize"),
            ("/spend/logs?api_key=sk-not-there-at-all", 404, "api_key"),
            ("/spend/logs?start_date=2026-11-02&end_date=2026-11-01", 400, "start_date"),
            ("/global/spend/report?group_by=customer", 400, "group_by"),
            ("/global/spend/report?team_id=red", 400, "team_id"),
        ):
            assert (await call(gateway, "GET", query, status=status))["error"]["param"] == param


async def test_a_user_is_made_with_a_key_and_teams_or_not_at_all(tmp_path):
    async with keys_gateway(tmp_path) as gateway:
        await call(gateway, "POST", "/key/generate", {"key_alias": "taken"})
        await call(gateway, "POST", "/team/new", {"team_id": "red"})
        for given, status, param in (
            ({"key_alias": "taken"}, 409, "key_alias"),
            ({"team_id": "nobody"}, 400, "team_id"),
            ({"duration": "soon"}, 400, "duration"),
            ({"teams": ["red", "nobody"]}, 404, "teams"),
        ):
            body = {"user_id": "ann", "teams": ["red"]} | given
            refused = await call(gateway, "POST", "/user/new", body, status=status)
            assert refused["error"]["param"] == param
            assert (await call(gateway, "GET", "/user/list"))["users"] == []
            assert (await call(gateway, "GET", "/teams/red"))["members"] == []
        made = await call(gateway, "POST", "/user/new", {"user_id": "ann", "teams": ["red"]})
        assert made["teams"] == ["red"] and (await ask(gateway, made["key"]))[0] == 200


async def test_a_wrong_field_is_named_as_litellm_calls_it(tmp_path):
    async with keys_gateway(tmp_path) as gateway:
        for path, body, param in (
            ("/key/generate", {"guardrails": ["pii"]}, "guardrails"),
            ("/key/generate", {"model_max_budget": {"m": 1}}, "model_max_budget"),
            ("/key/generate", {"key_alias": ""}, "key_alias"),
            ("/key/generate", {"team_id": "nobody"}, "team_id"),
            ("/key/generate", {"allowed_routes": ["management_routes"]}, "allowed_routes"),
            ("/key/update", {"rpm_limit": 1}, "key"),
            ("/key/delete", {}, "keys"),
            ("/team/new", {"team_id": "no name"}, "team_id"),
            ("/user/delete", {"user_ids": []}, "user_ids"),
            (
                "/team/member_add",
                {"team_id": "red", "member": {"role": "owner", "user_id": "a"}},
                "members[0].role",
            ),
        ):
            assert (await call(gateway, "POST", path, body, status=400))["error"]["param"] == param, body
