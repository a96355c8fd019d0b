"""What every command has: examples that parse, `-h`, completion, the version."""

import os
import shlex
import shutil
import subprocess
import sys

import pytest
import typer.main

from radixway import __version__
from radixway.cli import app
from radixway.cli.completion import CompletedShell
from radixway.cli.examples import EXAMPLES

MOVED = {"eval"}
"""Commands of earlier releases, which only say what has taken their place."""


def commands_of(command, path=()):
    """Return every command that does something by its path, without `radixway`."""
    subcommands = getattr(command, "commands", {})
    found = {} if subcommands and not getattr(command, "invoke_without_command", False) else {path: command}
    for name, each in subcommands.items():
        found |= commands_of(each, (*path, name))
    return found


ROOT = typer.main.get_command(app)
COMMANDS = {" ".join(path): each for path, each in commands_of(ROOT).items() if path[0] not in MOVED}


def run(*arguments, **env):
    return subprocess.run(
        [sys.executable, "-m", "radixway", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200", **env},
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_has_an_example_of_it(name):
    examples = [line.strip() for line in (COMMANDS[name].epilog or "").splitlines() if "radixway" in line]
    assert examples, f"`radixway {name}` has no example: add one in radixway/cli/examples.py"
    assert all(each.startswith(f"radixway {name}") for each in examples)


def test_there_is_no_example_of_a_command_that_is_not_there():
    assert EXAMPLES.keys() <= COMMANDS.keys()


@pytest.mark.parametrize("example", [each for examples in EXAMPLES.values() for each in examples])
def test_an_example_is_taken_by_its_command(example):
    words = shlex.split(example.partition(" >")[0])
    parent, command = None, ROOT
    while words and words[0] in getattr(command, "commands", {}):
        parent = command.make_context(command.name or "radixway", [], parent=parent, resilient_parsing=True)
        command = command.commands[words.pop(0)]
    context = command.make_context(command.name, words, parent=parent)  # raises what a user would be told
    assert not context.args


def test_an_example_with_a_wrong_option_would_be_noticed():
    with pytest.raises(Exception, match="No such option"):
        test_an_example_is_taken_by_its_command("up --modle x")


def test_the_version_and_short_help_are_options_too():
    assert run("--version").stdout.strip() == run("version").stdout.strip() == __version__
    told = run("workers", "drain", "-h")
    assert told.returncode == 0 and "Usage: radixway workers drain" in told.stdout
    assert "radixway workers drain http://gpu3:8000" in told.stdout


def help_of(path, columns):
    command, context = ROOT, None
    for name in ("radixway", *path.split()):
        command = command if context is None else command.commands[name]
        context = command.make_context(name, [], parent=context, resilient_parsing=True)
    formatter = context.formatter_class(width=columns)
    command.format_help(context, formatter)
    return formatter.getvalue()


@pytest.mark.parametrize("path", ["", *sorted({name.rpartition(" ")[0] for name in COMMANDS} - {""})])
def test_a_group_says_what_each_command_does_in_whole_sentences(path):
    _usage, *told = help_of(path, 80).splitlines()
    assert not [line for line in told if line.endswith("...")]


@pytest.mark.parametrize("name", COMMANDS)
def test_no_option_is_cut_short_on_a_narrow_terminal(name):
    told = help_of(name, 50).split()
    options = {each for param in COMMANDS[name].params for each in param.opts if each.startswith("--")}
    hidden = {each for param in COMMANDS[name].params if getattr(param, "hidden", 0) for each in param.opts}
    assert options - hidden <= {word.rstrip(",") for word in told}


def test_a_wrong_command_is_told_the_nearest_one():
    told = run("workers", "lits")
    assert told.returncode == 2 and "Did you mean 'list'?" in told.stderr


@pytest.mark.parametrize("shell", CompletedShell)
def test_a_completion_script_is_one_that_its_shell_takes(shell):
    script = run("completion", shell).stdout
    assert "radixway" in script and "_RADIXWAY_COMPLETE" in script
    if shutil.which(shell) is None:
        pytest.skip(f"NOT CHECKED by {shell}: it is not installed here")
    checked = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, timeout=30)
    assert checked.returncode == 0, checked.stderr


def test_a_shell_is_given_commands_and_options():
    asked = {"_RADIXWAY_COMPLETE": "complete_bash", "COMP_CWORD": "2"}
    told = run(**asked, COMP_WORDS="radixway workers re")
    assert told.stdout.split() == ["resume", "remove"]
    assert "--no-browser" in run(**asked, COMP_WORDS="radixway up --no").stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="NOT TESTED: there is no bash here")
def test_bash_completes_a_command(tmp_path):
    """The script, in a real shell, with the `radixway` of this tree on the path."""
    command = tmp_path / "radixway"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m radixway "$@"\n')
    command.chmod(0o755)
    script = run("completion", "bash").stdout
    ask = "COMP_WORDS=(radixway comp); COMP_CWORD=1; _radixway_completion radixway; echo ${COMPREPLY[@]}"
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    told = subprocess.run(
        ["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, timeout=60, env=env
    )
    assert told.stdout.strip() == "completion", told.stderr
