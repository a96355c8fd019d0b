"""Of the sign-in page."""

from radixway.console.texts.said import Said

TEXTS = {
    "signing.title": Said("Sign in", "登录"),
    "signing.lead": Said(
        "This gateway asks for its admin key. It stays in the console's memory until you sign out.",
        "此网关需要管理员密钥。密钥只保存在控制台的内存中，直到您退出。",
    ),
    "signing.key": Said("Admin key", "管理员密钥"),
    "signing.submit": Said("Sign in", "登录"),
    "signing.wrong": Said("This key is not valid here.", "该密钥在此无效。"),
    "signing.too_many": Said(
        "Too many wrong keys. Wait a minute, then try again.", "错误次数过多。请稍等一分钟再试。"
    ),
    "signing.away": Said("The gateway does not answer. Try again soon.", "网关没有响应。请稍后再试。"),
    "signing.closed": Said("The console is closed from here", "此处无法打开控制台"),
    "signing.no_key": Said(
        "No admin key is configured, so the console opens on the gateway's own machine only, "
        "by the name localhost. Set gateway.admin_key, or add this name to console.hosts.",
        "未配置管理员密钥，因此控制台只能在网关所在的机器上通过 localhost 打开。"
        "请设置 gateway.admin_key，或将此名称加入 console.hosts。",
    ),
}
