"""The dialog of share links: make one, copy it, revoke what there is."""

from nicegui import ui

from radixway.console.components import draw_text
from radixway.console.page import PageVisit
from radixway.console.pages.chat.chat_service import OperatorAccount

_DAY_S = 86_400
_LASTS_DAYS = (1, 7, 30)


async def open_share_dialog(visit: PageVisit, account: OperatorAccount, chat_id: str) -> None:
    """Open the dialog for `chat_id`. Raises ConsoleCallError."""
    say, path = visit.say, f"/v1/chats/{chat_id}/shares"
    options = {
        str(days): say("chat.share.day" if days == 1 else "chat.share.days", days=days)
        for days in _LASTS_DAYS
    }
    with visit.around, ui.dialog() as dialog, ui.card().classes("rw-ask rw-question"):
        draw_text(say("chat.share"), "h2")
        ui.label(say("chat.share.note")).classes("rw-muted")
        with ui.element("div").classes("rw-row"):
            lasts = ui.select(
                options | {"": say("chat.share.forever")}, value="7", label=say("chat.share.lasts")
            )
            lasts.props("outlined dense").classes("rw-select")
            create = ui.button(say("chat.share.create"), icon="link").props("unelevated")
        made = ui.element("div").classes("rw-stack")
        links = ui.element("div").classes("rw-stack")
        ui.button(say("frame.close"), on_click=dialog.close).props("flat")

    async def show_links() -> None:
        found = await account.get_json(path)
        links.clear()
        with links:
            for link in found:
                until = link["expires_at"]
                text = say("chat.share.never") if until is None else say("chat.share.until", date=until[:10])
                with ui.element("div").classes("rw-row"):
                    ui.label(say("chat.share.made", date=link["created_at"][:10])).classes("rw-number")
                    ui.label(text).classes("rw-muted")
                    revoke = ui.button(say("chat.share.revoke")).props("flat dense color=negative")
                    revoke.on_click(lambda link=link: revoke_link(link["id"]))

    async def create_link() -> None:
        async with visit.catch_call_errors():
            body = {"expires_in_s": int(lasts.value) * _DAY_S} if lasts.value else {}
            link = await account.post_json(path, body)
            origin = account.line.public_url or await ui.run_javascript("return location.origin")
            address = f"{origin}{link['path']}"
            made.clear()
            with made:
                field = ui.input(say("chat.share.link"), value=address).props("outlined dense readonly")
                field.classes("rw-full")
                ui.button(say("chat.copy"), icon="content_copy").props("outline").on_click(
                    lambda: ui.clipboard.write(address)
                )
            await show_links()

    async def revoke_link(link_id: str) -> None:
        async with visit.catch_call_errors():
            await account.send_request("DELETE", f"{path}/{link_id}")
            made.clear()
            await show_links()

    create.on_click(create_link)
    await show_links()
    dialog.on("hide", dialog.delete)
    dialog.open()
