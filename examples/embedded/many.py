"""Many questions at once to workers that run elsewhere: `python many.py http://gpu1:8000 …`."""

import asyncio
import sys

from radixway import Radixway, RadixwayError

QUESTIONS = [f"Write a sentence about the number {number}." for number in range(32)]


async def main(urls: list[str]) -> None:
    async with Radixway(
        workers=[{"url": url} for url in urls], routing={"policy": "expected_time"}
    ) as radixway:

        async def ask(question: str) -> None:
            try:
                answer = await radixway.chat(question, max_tokens=32)
            except RadixwayError as refused:
                print(f"{question}  {refused.status} {refused.code}: {refused}")
            else:
                print(f"{question}  {answer.worker}: {answer.text}")

        await asyncio.gather(*map(ask, QUESTIONS))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
