"""The list of chats on one side, the one that is open on the other; on a phone one of the two."""

from __future__ import annotations

from nicegui import ui

from radixway.console.calls import Refused
from radixway.console.page import Page, Visit
from radixway.console.pages.chat.account import Account
from radixway.console.pages.chat.composer import Composer
from radixway.console.pages.chat.conversation import Conversation
from radixway.console.pages.chat.listing import Listing
from radixway.console.parts import empty


async def build(visit: Visit) -> None:
    """The page; at `/chat/{chat_id}` with that chat."""
    say = visit.say
    with ui.element("div").classes("rw-page-title rw-wide-only"), ui.element("h1"):
        ui.label(say("chat.title"))
    account = Account(visit)
    try:
        models = [str(each["name"]) for each in await account.get("/configs/model_configs")]
        plugins = await account.get("/configs/builtin_plugins")
    except Refused as error:
        if error.status not in (404, 503):
            raise
        with ui.element("div").classes("rw-card"):
            empty(say("chat.off", why=str(error)))
        return
    chat_id = visit.request.path_params.get("chat_id")
    lists = chat_id is None and "list" in visit.request.query_params
    with ui.element("div").classes("rw-chat shows-list" if lists else "rw-chat"):
        with ui.element("aside").classes("rw-card rw-chat-list"):
            listing = Listing(visit, account, chat_id)
        with ui.element("section").classes("rw-card rw-conversation"):
            conversation = Conversation(visit, account, listing, chat_id)
            conversation.composer = Composer(visit, models, plugins, conversation.send, conversation.stop)
    await listing.refresh()
    try:
        await conversation.open(visit.request.query_params.get("through"))
    except Refused as error:
        if error.status != 404:
            raise
        ui.notify(say("chat.gone"), type="warning")
        ui.navigate.to("/chat")


PAGE = Page(name="chat", path="/chat", icon="forum", key="c", build=build, also=("/chat/{chat_id}",))
