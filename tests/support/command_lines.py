"""Shell commands, taken apart far enough to see whether what they name is there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import click
import typer.main

from evaluation.commands import app as evaluation_app
from radixway.cli import app
from radixway.cli.options import SeveralValues, repeat_options
from support.pages import ROOT

_COMMAND: click.Command = typer.main.get_command(app)
_TYPER_SCRIPTS = {"tools/evaluate.py": typer.main.get_command(evaluation_app)}
SERVERS = {"serve", "up", "engine", "worker"}
"""Commands of ours that the harness can start and stop."""
ELSEWHERE = {"pip", "docker", "kubectl", "helm", "git", "npm", "apt-get", "make", "envoy", "ray"}
"""What a reader has and a test must not use."""
_RUNNERS = {"exec", "env", "sudo", "nohup", "time"}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_TARGETS = set(
    re.findall(r"^([a-z][\w-]*)(?: [a-z][\w -]*)?:(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE)
)
_TARGETS |= set(re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split())
_EXTRAS = set(re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE))
_FOLDERS = ("src/", "tests/", "tools/", "docs/", "examples/", "benchmarks/", "deploy/")


def commands(script: str) -> Iterator[list[str]]:
    """The words of each simple command, those within `$(…)` too; comments are not among them."""
    script = without_comments(re.sub(r"^\$ ", "", script.replace("\\\n", " "), flags=re.MULTILINE))
    for inner in re.findall(r"\$\(([^()]*)\)", script):
        yield from commands(inner)
    lexer = shlex.shlex(script, posix=True, punctuation_chars=";&|()<>\n")
    lexer.commenters = ""
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    words: list[str] = []
    redirected = False
    for token in [*lexer, "\n"]:
        if set(token) <= set("<>"):
            redirected = True
        elif set(token) <= set(";&|()\n"):
            if words := _without_prefix(words):
                yield words
            words = []
        elif redirected:
            redirected = False
        else:
            words.append(token)


def without_comments(script: str) -> str:
    kept, quote, before = [], "", "\n"
    letters = iter(script)
    for letter in letters:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "#" and before in " \t\n":
            letter = next((each for each in letters if each == "\n"), "\n")
        kept.append(letter)
        before = letter
    return "".join(kept)


def _without_prefix(words: list[str]) -> list[str]:
    while words and (words[0] in _RUNNERS or _ASSIGNMENT.match(words[0])):
        words = words[1:]
    return words


def program(words: list[str]) -> str:
    """Which one a command starts, by its plain name."""
    return words[0].rpartition("/")[2]


def must_be_marked(words: list[str]) -> bool:
    """Whether a command cannot simply be run: it never ends by itself, or installs something."""
    name, rest = program(words), words[1:]
    if name == "radixway" and rest:
        ends = {"--once", "--json", "--help"} & {*rest}
        return rest[0] in SERVERS or (rest[0] in {"top", "console", "slime-router", "operator"} and not ends)
    installs = name.startswith("python") and rest[:2] in (["-m", "pip"], ["-m", "venv"])
    return name in ELSEWHERE or installs


def complaint(words: list[str]) -> str | None:
    """What is wrong with a command as it is written, as far as can be seen without running it."""
    name = program(words)
    if name == "python" or name == "python3":
        return _of_python(words[1:])
    if name == "radixway":
        return of_radixway(words[1:])
    if name == "make":
        wrong = [
            word
            for word in words[1:]
            if "=" not in word and not word.startswith("-") and word not in _TARGETS
        ]
        return f"the Makefile has no {wrong}" if wrong else None
    if name == "pip":
        named = re.findall(r"(?:radixway|\.)\[([\w,]+)\]", " ".join(words))
        wrong = [extra for extras in named for extra in extras.split(",") if extra not in _EXTRAS]
        return f"there is no extra {wrong}" if wrong else missing_files(words)
    return missing_files(words)


def _of_python(words: list[str]) -> str | None:
    if words[:2] == ["-m", "radixway"]:
        return of_radixway(words[2:])
    if words[:2] == ["-m", "pytest"] and "-k" in words:
        name, path = words[words.index("-k") + 1], words[2]
        return missing_files(words) or (
            None if name in (ROOT / path).read_text() else f"{path} has no test {name}"
        )
    if wrong := missing_files(words):
        return wrong
    if words and words[0] in _TYPER_SCRIPTS:
        return _of_click(_TYPER_SCRIPTS[words[0]], words[0], words[1:])
    if words and words[0].endswith(".py") and words[0].startswith(_FOLDERS):
        source = (ROOT / words[0]).read_text()
        folder = "".join(path.read_text() for path in (ROOT / words[0]).parent.glob("*.py"))
        for word in words[1:]:
            option = word.strip("[]").partition("=")[0]
            if option.startswith("--") and option.lstrip("-") not in (
                *options_of(source),
                *options_of(folder),
            ):
                return f"{words[0]} takes no {option}"
    return None


def options_of(source: str) -> set[str]:
    """Long options that a script's parser is given."""
    return set(re.findall(r"[\"']--([\w-]+)[\"']", source))


def missing_files(words: list[str]) -> str | None:
    """Files of this repository that are named and not there."""
    for word in words:
        path = word.partition("::")[0].partition("=")[2] if "=" in word else word.partition("::")[0]
        if path.startswith(_FOLDERS) and not re.search(r"[*…{}<>$|\[]", path) and not (ROOT / path).exists():
            return f"there is no {path}"
    return None


def of_radixway(words: list[str]) -> str | None:
    """Whether the command line takes these words: groups, commands, options and that these have values."""
    return _of_click(_COMMAND, "radixway", words)


def _of_click(command: click.Command, path: str, words: list[str]) -> str | None:
    words = [cleaned for word in words if (cleaned := word.strip("[]").replace("…", "")) or word == ""]
    while hasattr(command, "commands"):
        if not words or words[0] == "--help":
            return None
        if words[0].startswith("-") and getattr(command, "invoke_without_command", False):
            break
        known = command.commands.get(words[0])
        if known is None or known.hidden:
            return f"{path} has no {words[0]!r}"
        command, path, words = known, f"{path} {words[0]}", words[1:]
    if "--help" in words:
        return None
    if isinstance(command, SeveralValues):
        words = [*repeat_options(words, {name for param in command.params for name in param.opts})]
    with command.context_class(command, info_name=path) as context:
        try:
            command.make_parser(context).parse_args(words)  # values are not looked at: many are placeholders
        except Exception as error:  # noqa: BLE001 - of click, or of what typer brings in its place
            return f"{path}: {getattr(error, 'message', None) or error}"
    return None


def address(words: list[str]) -> tuple[str, str] | None:
    """Method and path of a call by curl to a gateway or an engine; None where it calls something else."""
    method = None
    for option in ("-X", "--request"):
        if option in words:
            method = words[words.index(option) + 1]
    sends = any(word in {"-d", "--data", "--data-binary", "--json", "-F"} for word in words)
    for word in words[1:]:
        if found := re.fullmatch(
            r"(?:https?://)?(?:localhost|127\.0\.0\.1|gateway|\$\w+)(?::\d+)?(/[^\s]*)", word
        ):
            return method or ("POST" if sends else "GET"), found[1]
    return None
