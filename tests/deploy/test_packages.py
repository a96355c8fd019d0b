"""The wheel and the sdist that `python -m build` makes: what is in them, and that they serve alone."""

import asyncio
import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from radixway import __version__
from support.kustomize import DEPLOY
from support.scripted_worker import Exchange, scripted_worker

pytestmark = pytest.mark.slow

ROOT = DEPLOY.parent
HEAVY = ("torch", "numpy", "transformers", "fastapi", "aiohttp", "nicegui", "sqlalchemy")


def empty_environment(path: Path) -> Path:
    """Make an environment with pip alone; return its interpreter."""
    venv.create(path, with_pip=True)
    return path / "bin" / "python"


def pip_install(python: Path, *arguments: str | Path) -> None:
    command = [python, "-m", "pip", "--disable-pip-version-check", "install", "-q", *arguments]
    subprocess.run(command, check=True, timeout=900, env=clean_env())


def clean_env(**more: str) -> dict[str, str]:
    """The environment without this checkout: what is imported is what was installed."""
    hidden = {"PYTHONPATH", "VIRTUAL_ENV", "RADIXWAY_HOME"}
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return kept | {"NO_COLOR": "1", "COLUMNS": "200"} | more


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Build the sdist and, from that, the wheel, as `python -m build` does. Returns wheel and sdist."""
    scratch = tmp_path_factory.mktemp("packages")
    python = empty_environment(scratch / "build")
    pip_install(python, "build")
    command = [python, "-m", "build", "--outdir", scratch / "dist", ROOT]
    subprocess.run(command, check=True, timeout=900, stdout=subprocess.DEVNULL, env=clean_env())
    (wheel,) = (scratch / "dist").glob("*.whl")
    (sdist,) = (scratch / "dist").glob("*.tar.gz")
    return wheel, sdist


@pytest.fixture(scope="module")
def base_python(packages: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, without any extra."""
    python = empty_environment(tmp_path_factory.mktemp("base") / "venv")
    pip_install(python, "-c", ROOT / "constraints.txt", packages[0])
    return python


def tracked(folder: str) -> set[str]:
    listed = subprocess.run(
        ["git", "ls-files", folder], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    return {name for name in listed if (ROOT / name).exists()}


def test_the_wheel_has_every_file_of_the_package_and_no_other(packages):
    with zipfile.ZipFile(packages[0]) as wheel:
        inside = {f"src/{name}" for name in wheel.namelist() if name.startswith("radixway/")}
    files = tracked("src/radixway")
    assert files - inside == set()
    assert {name for name in inside - files if "__pycache__" not in name} == set()


def test_the_sdist_has_what_make_and_the_tests_read(packages):
    with tarfile.open(packages[1]) as sdist:
        inside = {name.partition("/")[2] for name in sdist.getnames()}
    wanted = {"Makefile", "constraints.txt", "pyproject.toml", "LICENSE", "NOTICE", "README.md"}
    wanted |= tracked("src") | tracked("tests") | tracked("tools") | tracked("deploy")
    assert wanted - inside == set()


def test_the_base_install_imports_nothing_heavy(base_python, tmp_path):
    code = (
        "import sys, json, radixway, radixway.cli\n"
        f"heavy = sorted(set({HEAVY}) & set(sys.modules))\n"
        "print(json.dumps([radixway.__version__, radixway.__file__, heavy]))"
    )
    told = subprocess.run(
        [base_python, "-c", code], cwd=tmp_path, check=True, capture_output=True, env=clean_env()
    )
    version, file, heavy = json.loads(told.stdout)
    assert version == __version__ and "site-packages" in file and heavy == []


@asynccontextmanager
async def serving(python: Path, home: Path, *arguments: str, **env: str):
    """`radixway ARGUMENTS` of that interpreter, in `home`. Yields the process."""
    process = await asyncio.create_subprocess_exec(
        *(python, "-m", "radixway", *arguments),
        stdout=asyncio.subprocess.PIPE,
        cwd=home,
        env=clean_env(RADIXWAY_HOME=str(home), **env),
    )
    try:
        async with asyncio.timeout(150):
            yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


def imported_file(python: Path, directory: Path, **env: str) -> str:
    """Return where `radixway` is imported from."""
    code = "import radixway; print(radixway.__file__)"
    command = [python, "-c", code]
    return subprocess.run(
        command, cwd=directory, env=clean_env(**env), check=True, capture_output=True, text=True
    ).stdout


async def ask(python: Path, url: str, home: Path, **env: str) -> str:
    """Return what `radixway ask` prints."""
    process = await asyncio.create_subprocess_exec(
        *(python, "-m", "radixway", "ask", "--url", url, "What is Radixway?"),
        stdout=asyncio.subprocess.PIPE,
        cwd=home,
        env=clean_env(**env),
    )
    told, _ = await process.communicate()
    assert process.returncode == 0
    return told.decode()


async def test_the_base_install_serves_and_asks(base_python, tmp_path):
    async def answer(exchange: Exchange) -> None:
        await exchange.begin_stream()
        event = {"model": "m", "choices": [{"delta": {"content": "a gateway"}}]}
        await exchange.chunk(b"data: " + json.dumps(event).encode() + b"\n\ndata: [DONE]\n\n")
        await exchange.end_stream()

    async with scripted_worker(answer) as worker:
        async with serving(base_python, tmp_path, "serve", "--port", "0", "--worker", worker.url) as process:
            url = (await process.stdout.readline()).decode().split()[1]
            async with aiohttp.ClientSession() as client:
                while True:  # until the worker has been seen
                    async with client.get(f"{url}/ready") as ready:
                        if ready.status == 200:
                            break
                    await asyncio.sleep(0.05)
                async with client.get(f"{url}/") as index:
                    told = await index.json()
            assert told["version"] == __version__ and "console" not in told["links"]  # an extra
            assert (await ask(base_python, url, tmp_path)).startswith("a gateway\n")


async def test_what_the_wheel_carries_is_enough_for_the_engine_and_the_console(packages, tmp_path, free_port):
    """Its own files, with the libraries of the tests: the bundled model answers, pages have their assets."""
    unpacked = tmp_path / "unpacked"
    with zipfile.ZipFile(packages[0]) as wheel:
        wheel.extractall(unpacked)
    python, env = Path(sys.executable), {"PYTHONPATH": str(unpacked)}
    assert imported_file(python, tmp_path, **env).startswith(str(unpacked))
    options = ("up", "--port", str(free_port), "--no-browser", "--no-greet")
    async with serving(python, tmp_path, *options, **env) as process:
        while not (line := await process.stdout.readline()).startswith(b"Serving."):
            assert line, "it ended before it served"
        url = f"http://127.0.0.1:{free_port}"
        assert "Radixway" in await ask(python, url, tmp_path, **env)
        async with aiohttp.ClientSession() as client:
            while True:  # until the console's process has started
                async with client.get(f"{url}/console", headers={"accept": "text/html"}) as page:
                    text = await page.text()
                if page.status == 200 and "location.reload()" not in text:
                    break
                await asyncio.sleep(0.2)
            styles = [
                part.partition('"')[0] for part in text.split('href="') if ".css" in part.partition('"')[0]
            ]
            assert styles
            for path in styles:
                async with client.get(f"{url}{path}") as style:
                    assert style.status == 200, path
