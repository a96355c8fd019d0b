"""Of what stands around every page."""

from radixway.console.texts.said import Said

TEXTS = {
    "frame.product": Said("Radixway", "Radixway"),
    "frame.skip": Said("Skip to content", "跳到正文"),
    "frame.menu": Said("Menu", "菜单"),
    "frame.pages": Said("Pages", "页面"),
    "frame.theme": Said("Appearance", "外观"),
    "frame.theme.system": Said("Like the system", "跟随系统"),
    "frame.theme.light": Said("Light", "浅色"),
    "frame.theme.dark": Said("Dark", "深色"),
    "frame.language": Said("Language", "语言"),
    "frame.language.en": Said("English", "English"),
    "frame.language.zh": Said("中文", "中文"),
    "frame.shortcuts": Said("Keyboard shortcuts", "键盘快捷键"),
    "frame.shortcut.go": Said("Go to {page}", "前往{page}"),
    "frame.shortcut.search": Said("Search", "搜索"),
    "frame.shortcut.help": Said("Show this", "显示此帮助"),
    "frame.shortcut.close": Said("Close a dialog", "关闭对话框"),
    "frame.close": Said("Close", "关闭"),
    "frame.cancel": Said("Cancel", "取消"),
    "frame.undo": Said("Undo", "撤销"),
    "frame.sign_out": Said("Sign out", "退出"),
    "frame.away": Said(
        "The gateway does not answer. This page goes on by itself once it does.",
        "网关没有响应。恢复后页面会自动继续。",
    ),
    "frame.refused": Said("The gateway refused: {message}", "网关拒绝了请求：{message}"),
    "frame.failed": Said(
        "Something went wrong in the console. Its log says more.", "控制台出错，详情见日志。"
    ),
}
