"""A process that is asked to end does so, whatever hangs in it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

BEGIN = """
import asyncio, atexit, signal, sys, threading
from radixway.core.http import AppServer, bind_tcp, exit_process, exit_process_within, run_until_exit


async def answer(scope, receive, send):
    pass


def serve(started=asyncio.Event.wait, last=lambda: None, **options):
    async def serving():
        server = AppServer(answer, bind_tcp("127.0.0.1", 0), drain_s=0)
        with server.stopped_by_signals():
            print("starting", flush=True)
            await started(asyncio.Event())
            await server.serve(lambda: print("serving", flush=True))
        print("left with", signal.getitimer(signal.ITIMER_REAL), flush=True)
        last()
        return 0

    return run_until_exit(serving(), **options)


async def at_once(_):
    pass
"""


@contextmanager
def program(text: str, stderr: int = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", BEGIN + text]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_signal_ends_a_start_that_waits_for_ever() -> None:
    with program("sys.exit(serve())") as process:
        assert process.stdout.readline() == "starting\n"
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=60) == ("left with (0.0, 0.0)\n", "")
        assert process.returncode == 0


def test_a_thread_that_never_ends_does_not_keep_the_process() -> None:
    hang = "lambda: asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)"
    with program(f"sys.exit(serve(at_once, {hang}, exit_timeout_s=0.1))") as process:
        assert [process.stdout.readline() for _ in range(2)] == ["starting\n", "serving\n"]
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=60)
        assert process.returncode == 1
        assert "Thread 0x" in told and 'threading.py", line' in told


def test_nor_does_it_where_nobody_reads_what_is_told_of_it() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, bytes(4096))
    except BlockingIOError:
        os.set_blocking(writer, True)
    with program("exit_process_within(0.1); threading.Event().wait()", writer) as process:
        assert process.wait(60) == -signal.SIGALRM
    os.close(reader)
    os.close(writer)


def test_a_signal_after_all_is_over_ends_the_process_at_once() -> None:
    text = "serve(at_once); print('over', flush=True); threading.Event().wait()"
    with program(text) as process:
        assert [process.stdout.readline() for _ in range(2)] == ["starting\n", "serving\n"]
        process.send_signal(signal.SIGTERM)
        assert [process.stdout.readline() for _ in range(2)] == ["left with (0.0, 0.0)\n", "over\n"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == -signal.SIGTERM


def test_an_exit_runs_what_was_registered_and_takes_nothing_apart() -> None:
    text = """
class Module:
    def __del__(self):
        print("taken apart")

module = Module()
atexit.register(print, "exit functions")
threading.Thread(target=lambda: threading.main_thread().join(0.1) or print("threads")).start()
exit_process(3)
"""
    with program(text) as process:
        assert process.communicate(timeout=60) == ("threads\nexit functions\n", "")
        assert process.returncode == 3
