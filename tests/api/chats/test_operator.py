"""Whoever runs the gateway chats as a user like others: signed in by the gateway's admin key."""

from support.chat_user import ChatUser
from support.running_gateway import running_gateway

KEY = "a-key-for-the-operator"


async def sign_in(gateway, key=None):
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    return await gateway.post("/auth/operator", None, headers=headers)


async def test_the_admin_key_opens_one_account_and_nobody_elses_chats(tmp_path, monkeypatch):
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    sections = {"chat": {"allow_debug_auth": True}, "gateway": {"admin_key": KEY}}
    async with running_gateway(**sections) as gateway:
        assert (await sign_in(gateway))[0] == 401
        assert (await sign_in(gateway, "another-key-than-that"))[0] == 401
        status, tokens, headers = await sign_in(gateway, KEY)
        assert status == 200 and headers["cache-control"] == "no-store"
        operator = ChatUser(gateway, tokens["access_token"]["access_token"])
        _, who = await operator.call("GET", "/auth/check")
        _, again, _ = await sign_in(gateway, KEY)
        same = ChatUser(gateway, again["access_token"]["access_token"])
        assert (await same.call("GET", "/auth/check"))[1] == who
        _, tokens = await gateway.get("/auth/callback/debug?code=eve")
        eve = ChatUser(gateway, tokens["access_token"]["access_token"])
        _, chat = await eve.call("POST", "/v1/chats", {})
        assert (await operator.call("GET", f"/v1/chats/{chat['id']}"))[0] == 404
        assert (await operator.call("GET", "/admin/workers"))[0] == 403


async def test_without_keys_this_machine_is_the_operators(tmp_path, monkeypatch):
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    async with running_gateway() as gateway:
        assert (await sign_in(gateway))[0] == 200
