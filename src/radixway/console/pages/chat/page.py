"""*Chat*: the list of chats on one side, the one that is open on the other; on a phone one of the two."""

from nicegui import ui

from radixway.console.components import draw_empty, draw_page_title
from radixway.console.gateway_calls import CallRefusedError
from radixway.console.page import ConsolePage, PageVisit
from radixway.console.pages.chat.chat_service import OperatorAccount
from radixway.console.pages.chat.conversation import ConversationView
from radixway.console.pages.chat.widgets import ChatList


async def build_chat_page(visit: PageVisit) -> None:
    """Build the page for `visit`; at `/chat/{chat_id}` with that chat."""
    say = visit.say
    draw_page_title(say("chat.title"), "rw-wide-only")
    account = OperatorAccount(visit)
    try:
        models = [str(model["name"]) for model in await account.get_json("/configs/model_configs")]
        plugins = await account.get_json("/configs/builtin_plugins")
    except CallRefusedError as error:
        if error.status not in (404, 503):
            raise
        with ui.element("div").classes("rw-card"):
            draw_empty(say("chat.off", why=str(error)))
        return
    chat_id = visit.request.path_params.get("chat_id")
    lists = chat_id is None and "list" in visit.request.query_params
    with ui.element("div").classes("rw-chat shows-list" if lists else "rw-chat"):
        with ui.element("aside").classes("rw-card rw-chat-list"):
            listing = ChatList(visit, account, chat_id)
        with ui.element("section").classes("rw-card rw-conversation"):
            conversation = ConversationView(visit, account, listing, chat_id, models, plugins)
    await listing.reload_chats()
    try:
        await conversation.draw_thread(visit.request.query_params.get("through"))
    except CallRefusedError as error:
        if error.status != 404:
            raise
        ui.notify(say("chat.gone"), type="warning")
        ui.navigate.to("/chat")


PAGE = ConsolePage(
    name="chat", path="/chat", icon="forum", key="c", build=build_chat_page, also=("/chat/{chat_id}",)
)
