"""Whatever dies, no answer is lost or doubled, and every listener hears all of it once, to its end."""

from __future__ import annotations

import asyncio

import pytest

from support.faults_serving import Eve, Postgres, Server, Valkey, checked, worker

Pair = tuple[Server, Server]


async def test_a_worker_that_is_killed_before_its_first_token_costs_nothing(
    eve: Eve, server: Server, times: range
) -> None:
    await eve.login(server)
    for _ in times:
        answer = await eve.asked(server)
        _, listening = eve.listen(answer, server)
        async with worker(eve, server) as dying:
            await dying.work()
            dying.die()
        async with worker(eve, server) as living:
            await living.answer("A ", "radix ", "tree.")
            whole = await checked(eve, server, answer, listening)
        assert (whole["state"], whole["content"]) == ("complete", "A radix tree.")


async def test_a_worker_that_is_killed_amid_its_words_leaves_them_and_an_end(
    eve: Eve, server: Server, times: range
) -> None:
    await eve.login(server)
    for _ in times:
        answer = await eve.asked(server)
        heard, listening = eve.listen(answer, server)
        async with worker(eve, server) as dying:
            await dying.say(await dying.work(), "A ", "radix ")
            await heard.begun.wait()
            dying.die()
            left = await checked(eve, server, answer, listening)
        assert left["state"] == "aborted_by_worker"
        assert left["content"] == (await listening).words and left["content"].startswith("A ")


async def test_of_two_jobs_of_a_dying_worker_the_one_without_words_is_given_to_another(
    eve: Eve, server: Server, times: range
) -> None:
    await eve.login(server)
    for _ in times:
        answers = [await eve.asked(server, f"question {number}") for number in range(2)]
        listening = [eve.listen(answer, server) for answer in answers]
        async with worker(eve, server, at_once=2) as dying:
            spoken, _ = await dying.work(), await dying.work()
            await dying.say(spoken, "A ")
            await listening[0][0].begun.wait()
            dying.die()
            broken = await checked(eve, server, answers[0], listening[0][1])
        async with worker(eve, server, at_once=2) as living:
            await living.answer("Here.")
            whole = await checked(eve, server, answers[1], listening[1][1])
        assert (broken["state"], broken["content"]) == ("aborted_by_worker", "A ")
        assert (whole["state"], whole["content"]) == ("complete", "Here.")


async def test_a_server_that_is_killed_goes_on_with_what_was_under_way(
    eve: Eve, server: Server, times: range
) -> None:
    await eve.login(server)
    for _ in times:
        spoken, silent, waiting = [await eve.asked(server, f"question {number}") for number in range(3)]
        heard = [eve.listen(answer, server) for answer in (spoken, silent, waiting)]
        async with worker(eve, server, at_once=2) as busy:
            first = await busy.work()
            await busy.work()
            await busy.say(first, "A ", "radix ")
            await heard[0][0].begun.wait()
            server.kill()
        server.start()
        async with worker(eve, server) as living:
            await living.answer("One.")
            await living.answer("Two.")
            left = await checked(eve, server, spoken, heard[0][1])
            whole = [
                await checked(eve, server, answer, listening)
                for answer, (_, listening) in zip((silent, waiting), heard[1:], strict=True)
            ]
        assert left["state"] == "aborted_by_worker"
        assert {message["content"] for message in whole} == {"One.", "Two."}


async def test_a_valkey_that_is_killed_takes_no_word_with_it(
    eve: Eve, pair: Pair, own_valkey: Valkey, times: range
) -> None:
    here, there = pair
    await eve.login(there)
    for _ in times:
        answer = await eve.asked(there)
        heard = [eve.listen(answer, server) for server in (here, there)]
        async with worker(eve, here) as living:
            request = await living.work()
            await living.say(request, "A ")
            for each, _ in heard:
                await each.begun.wait()
            own_valkey.kill()
            await living.say(request, "radix ")
            _, late = eve.listen(answer, here)
            own_valkey.start()
            await living.say(request, "tree.")
            await living.finish(request, "A radix tree.")
            whole = await checked(eve, here, answer, late, *(listening for _, listening in heard))
        assert (whole["state"], whole["content"]) == ("complete", "A radix tree.")


async def test_a_postgresql_that_is_restarted_takes_no_word_with_it(
    eve: Eve, pair: Pair, own_postgres: Postgres, times: range
) -> None:
    here, there = pair
    await eve.login(there)
    for _ in times:
        spoken, waiting = await eve.asked(there), await eve.asked(here)
        heard = [eve.listen(spoken, server) for server in (here, there)]
        _, later = eve.listen(waiting, there)
        async with worker(eve, here) as living:
            request = await living.work()
            await living.say(request, "A ")
            for each, _ in heard:
                await each.begun.wait()
            restarting = asyncio.create_task(asyncio.to_thread(own_postgres.restart))
            await living.say(request, "radix ", "tree.")
            await living.finish(request, "A radix tree.")
            await restarting
            await living.answer("Later.")
            whole = await checked(eve, here, spoken, *(listening for _, listening in heard))
            second = await checked(eve, there, waiting, later)
        assert (whole["state"], whole["content"]) == ("complete", "A radix tree.")
        assert (second["state"], second["content"]) == ("complete", "Later.")


async def test_two_servers_on_one_database_are_one_service(eve: Eve, two: Pair, times: range) -> None:
    here, there = two
    await eve.login(here)
    for _ in times:
        first, second = await eve.asked(there), await eve.asked(here)
        heard = [eve.listen(first, *order) for order in ((here, there), (there, here))]
        _, stopped = eve.listen(second, there)
        async with worker(eve, here) as one, worker(eve, there) as other:
            requests = [await one.work(), await other.work()]
            for each, request in zip((one, other), requests, strict=True):
                await each.say(request, "A ", "radix ")
            await eve.call(there, "POST", f"/v1/chats/{second['chat_id']}/messages/{second['id']}/stop")
            assert (await checked(eve, here, second, stopped))["state"] == "cancelled"
            for each, request in zip((one, other), requests, strict=True):
                await each.say(request, "tree.")
                await each.finish(request, "A radix tree.")
            whole = await checked(eve, there, first, *(listening for _, listening in heard))
        assert (whole["state"], whole["content"]) == ("complete", "A radix tree.")


@pytest.mark.slow
async def test_what_one_of_two_servers_had_under_way_when_it_was_killed_the_other_goes_on_with(
    eve: Eve, pair: Pair, times: range
) -> None:
    doomed, living = pair
    await eve.login(living)
    for _ in times:
        spoken, silent = [await eve.asked(living, f"question {number}") for number in range(2)]
        heard = [eve.listen(spoken, doomed, living), eve.listen(spoken, living)]
        _, waiting = eve.listen(silent, doomed, living)
        async with worker(eve, doomed, at_once=2) as busy:
            first = await busy.work()
            await busy.work()
            await busy.say(first, "A ", "radix ")
            for each, _ in heard:
                await each.begun.wait()
            doomed.kill()
        async with worker(eve, living) as worker_there:
            await worker_there.answer("Here.")
            whole = await checked(eve, living, silent, waiting)
            left = await checked(eve, living, spoken, *(listening for _, listening in heard))
        doomed.start()
        assert left["state"] == "aborted_by_worker"
        assert (whole["state"], whole["content"]) == ("complete", "Here.")
