"""What the tutored model learns by heart: questions that other projects' suites ask, and its answers.

The questions are those of the suites, so that their cases meet a model which answers in sentences, calls the
tools that it is shown and writes JSON that ends. The answers are ours. Where several are given, each is as
likely as the others: a case that samples at a temperature sees different ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

STORY = (
    "Once upon a time there was a kingdom of glass, and its queen knew the name of every wind.\n"
    "She spoke softly: the river is late, and the mill must wait.\n"
    "Nobody answered her, or so the old books say, but the river came that night."
)
HELLOS = ("Hello there, it is good to meet you today.", "Hello! What can I do for you this morning?")
PLAIN = (
    "That is a good question, and the short answer is that it depends on what you need.",
    "There are several ways to see it, so let me begin with the simplest one of them.",
    "I would say so, although others may well see it in another way than I do.",
)
"""Said to whatever was not taught."""

LONG_STORY = """
Please write an extremely detailed and vivid fantasy story, set in a world full of intricate magic systems, \
political intrigue, and complex characters.
Ensure that you thoroughly describe every scene, character's motivations, and the environment. Include long, \
engaging dialogues and elaborate on the inner thoughts of the characters.
Each section should be as comprehensive as possible to create a rich and immersive experience for the reader.
The story should span multiple events, challenges, and character developments over time. Aim to make the \
story at least 3,000 words long.
"""
PRODUCT = """
Extract the name, size, price, and color from this product description as a JSON object:

<description>
The SmartHome Mini is a compact smart home assistant available in black or white for only $49.99. At just 5 \
inches wide, it lets you control lights, thermostats, and other connected devices via voice or app—no matter \
where you place it in your home. This affordable little hub brings convenient hands-free control to your \
smart devices.
</description>
"""

SAID: dict[str, tuple[str, ...]] = {
    "Hello": HELLOS,
    "Hello!": HELLOS,
    "hello": HELLOS,
    "Hi": HELLOS,
    "Hey": HELLOS,
    "Say hello.": HELLOS,
    "hi": ("Hi, and how are you on this fine day?",),
    "how are you": ("I am well, thank you, and I hope that you are too.",),
    "Say goodbye.": ("Goodbye, and have a pleasant evening.",),
    "Say hello in one word.": ("Hello.",),
    "Say hi in one word.": ("Hi.",),
    "Count from 1 to 20.": ("1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20.",),
    "tell me a common saying": ("An apple a day keeps the doctor away.",),
    "What is 2 + 2? Return only the final answer.": ("4",),
    "What is 2+2?": ("4",),
    "Tell me about Paris": ("Paris is a city on the river Seine.",),
    "Who are you?": ("I am a very small model that was taught by heart.",),
    "My name is Alice.": ("Hello Alice! Nice to meet you.",),
    "What is my name?": ("Your name is Alice.",),
    "what is 1+1?": ("The answer to that is two, as one and one have always been two.",),
    "what is 1+1? please provide the result without any other text.": ("2",),
    'what is 1+1? please respond with a JSON object, the format is {"result": 2}': ('{"result": 2}',),
    'what is 1+1? The format is "result": 2': ('"result": 2',),
    "express your result in json": ('{"result": 2}',),
    "What is 2 + 2?": ("2 + 2 is 4.",),
    "What is 1+3?": ("1+3 is 4.",),
    "What is 1 + 2": ("It is 3.",),
    "Where was it played?": ("It was played in Arlington, in the state of Texas.",),
    "What is the opposite of big?": (
        "The opposite of big is small.",
        "Small is the opposite of big.",
        "It is little, or small, as you like.",
        "Tiny, I should say.",
    ),
    "What is the capital of France?": ("The capital of France is Paris, a city on the river Seine.",),
    "What is the capital of France? Answer in a few words.": ("It is Paris, on the Seine.",),
    "Answer in a few words.": ("C'est Paris, sur la Seine.",),
    "What is the capital of Bulgaria?": ("The capital of Bulgaria is Sofia.",),
    "Introduce the capital of France.": (
        "Paris is the capital of France, and two million people live there.",
    ),
    "Tell me a long story about a dragon.": (STORY,),
    LONG_STORY: (STORY,),
    PRODUCT: ('{"name": "SmartHome Mini", "size": "5 inches", "price": "$49.99", "color": "black"}',),
    "Write me 2 haikus. Only include the haikus.": (
        "An old silent pond\nA frog jumps into the pond\nSplash and silence now\n\n"
        "Light of the moon moves\nWest while the flowers cast their\nshadows to the east",
    ),
    "The best language for type-safe systems programming is ": ("C++", "Kotlin"),
    "I disagree, pick another one": ("Swift", "Ruby"),
    "Give me a different one": ("10.0.0.7", "172.16.4.2"),
    "Give me another one with a different name and age": (
        '{"name": "Bob", "age": 52, "skills": ["go", "rust", "sql"], '
        '"work_history": [{"company": "Beta", "duration": 4.5, "position": "lead"}]}',
    ),
}

BEGINNINGS: list[tuple[str, str, tuple[str, ...]]] = [
    ('what is 1+1? The format is "result": 2', "{", ('"result": 2}',)),
    ('what is 1+1? The format is "result": 2', '{"result":', (" 2}",)),
    ("What is the capital of Bulgaria?", "{", ('"capital": "Sofia"}',)),
    ("Introduce the capital of France.", '{\n   "name": "', ('Paris",\n   "population": 2161000\n}',)),
    ("Introduce the capital of France.", '{"name": "', ('Paris", "population": 2161000}',)),
    (
        PRODUCT,
        "{\n",
        ('"name": "SmartHome Mini",\n"size": "5 inches",\n"price": "$49.99",\n"color": "black"\n}',),
    ),
    (
        "tell me a common saying",
        "Here is a common saying about apple. An apple a day, keeps",
        (" the doctor away.",),
    ),
    ("Generate single key JSON with only letters.", '{"name":"', ('Alice"}',)),
]
"""Questions whose answer a grammar begins: the question, what it begins with, and how that ends."""

PROFILE = (
    '{"name": "Ada", "age": 36, "skills": ["python", "maths", "logic"], '
    '"work_history": [{"company": "Acme", "duration": 2.5, "position": "engineer"}]}'
)
PROFILE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "skills": {"type": "array", "items": {"type": "string", "maxLength": 10}, "minItems": 3},
        "work_history": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "company": {"type": "string"},
                    "duration": {"type": "number"},
                    "position": {"type": "string"},
                },
                "required": ["company", "position"],
            },
        },
    },
    "required": ["name", "age", "skills", "work_history"],
}
ASKED_PROFILE = f"Give an example JSON for an employee profile that fits this schema: {PROFILE_SCHEMA}"
JOKE = '{"setup": "Why did the cat sit on the computer?", "punchline": "To keep an eye on the mouse."}'
EQUATION = (
    '{"steps": [{"explanation": "Take 7 from both sides.", "output": "8x = -30"}, '
    '{"explanation": "Divide both sides by 8.", "output": "x = -3.75"}], "final_answer": "x = -3.75"}'
)
SAID |= {
    ASKED_PROFILE: (PROFILE,),
    "how can I solve 8x + 7 = -23": (EQUATION,),
    "Tell me a joke about cats.": (JOKE,),
    "Give me the setup to a joke about cats, no punchline.": (
        '{"setup": "Why did the cat sleep?", "punchline": null}',
    ),
    "Give me a joke about cats, include the punchline.": (JOKE,),
    "Tell me a joke about cats. Return the result as a JSON with 'setup' and 'punchline' keys. "
    "Return nothing other than JSON.": (JOKE,),
}
ADDRESS = r"((25[0-5]|(2[0-4]|1\d|[1-9]|)\d)\.){3}(25[0-5]|(2[0-4]|1\d|[1-9]|)\d)"
SAID |= {f"Give an example IP address with this regex: {ADDRESS}": ("192.168.0.1", "127.0.0.1")}
ENDINGS: dict[str, tuple[str, ...]] = {
    "fits this schema:": (PROFILE,),
    "Return in a JSON format. The JSON Schema is:": ('{"name": "Paris", "population": 2161000}',),
}
"""Questions that go on with something long, as a schema: what stands before that, and the answer."""


class TaughtCall(NamedTuple):
    """A tool call, in the order in which its arguments are written."""

    name: str
    arguments: dict[str, Any]


WEATHER_IN_PARIS = TaughtCall("get_current_weather", {"city": "Paris", "unit": "celsius"})
CALLED: dict[str, list[TaughtCall]] = {
    "Compute (3+5)": [TaughtCall("add", {"a": 3, "b": 5})],
    "Please sum 5 and 7, just call the function.": [TaughtCall("add", {"a": 5, "b": 7})],
    "Please compute 5 - 7, using your tool.": [TaughtCall("sub", {"int_a": 5, "int_b": 7})],
    "What is the temperature in Paris in celsius??": [WEATHER_IN_PARIS],
    "What is the temperature in Paris in celsius?": [WEATHER_IN_PARIS],
    "What is the weather in Paris in celsius?": [WEATHER_IN_PARIS],
    "What is the weather in San Francisco, CA?": [
        TaughtCall("get_weather", {"location": "San Francisco, CA"})
    ],
    "What's the weather like in Paris today?": [TaughtCall("get_weather", {"city": "Paris"})],
    "I'm planning a trip to Tokyo next week. What's the weather like? What are the most amazing sights?": [
        TaughtCall("get_weather", {"location": "Tokyo"}),
        TaughtCall("get_tourist_attractions", {"city": "Tokyo"}),
    ],
    "What is the value of magic_function(3)? Use the tool.": [TaughtCall("magic_function", {"input": 3})],
    "What is the value of magic_function_no_args()? Use the tool.": [
        TaughtCall("magic_function_no_args", {})
    ],
    "Analyze some data with metrics and configuration": [
        TaughtCall("analyze_data", {"data": {"metrics": ["accuracy"], "config": {"enabled": True}}})
    ],
    "Using the tool, generate a Pirate greeting.": [
        TaughtCall("greeting_generator", {"answer_style": "pirate"})
    ],
    "Create a customer named '你好啊集团' (Hello Group) - a Chinese technology company": [
        TaughtCall("unicode_customer", {"customer_name": "你好啊集团", "description": "a technology company"})
    ],
    "Create a customer named 'こんにちは株式会社' (Hello Corporation) - a Japanese company": [
        TaughtCall("unicode_customer", {"customer_name": "こんにちは株式会社", "description": "a company"})
    ],
    "What is 3 + 4": [TaughtCall("my_adder_tool", {"a": 3, "b": 4})],
}
"""Called where tools are shown."""
AFTER_A_TOOL = ("The tool has said it, and there is nothing that I could add to that.",)

CONTINUED: dict[str, tuple[str, ...]] = {
    "The capital of France is": (
        " Paris. It lies on the river Seine, and many people go there every year to see it.",
    ),
    "Hello, my name is": (" Ada, and I have lived in this small town for as long as I can remember.",),
    "My name is": (" Ada, and I like to count things.",),
    "What is an LLM?": (
        " It is a model of language.",
        " A large language model, which was shown more text than anybody could read in a life.",
        " Something that guesses the next word, and then the next, until it has said enough for one day.",
        " Nobody is quite sure.",
        " You are asking one.",
        " That depends on whom you ask, and when.",
        " Many numbers, multiplied.",
        " In short, a program that writes; in long, a table of weights that was made from a library.",
        " Well, think of a parrot that has read every book.",
        " Once it was a kind of degree in law, and now it is a kind of machine.",
    ),
    "What is the capital of France?": (" It is Paris, as everybody knows who has ever been there.",),
    "A robot may not injure another robot": (" or, by doing nothing, let one come to harm.",),
    "Today is a sunny day and I like": (
        " to walk by the river, where the air is cool and the trees are old.",
    ),
    "Today is ": ("a day like every other, and so was the day before it.",),
    "Explain quantum computing in simple terms:": (
        " it counts in all ways at once, and then tells you one of them.",
    ),
    "Write a single sentence about a sunny day in the park.": (
        " Children ran over the warm grass while their parents sat in the shade and talked of other summers.",
    ),
    "Briefly explain what gravity is.": (
        " Gravity is the pull between things that have mass: it holds the moon near us, makes apples fall, "
        "and gives every one of us a weight.",
    ),
    "Q: What is 17 multiplied by 23? Reply with just the number.\nA:": (" 391",),
    "Q: The three primary colors are red, blue, and ___. Fill in the blank.\nA:": (" yellow",),
    "Q: What is the capital of France? Just one word.\nA:": (" Paris",),
    "Q: What is the capital of France? Reply in one word.\nA:": (" Paris",),
    LONG_STORY: (STORY,),
    "Generate a greeting:": (" Hello",),
    "Generate a simple JSON with name, age, and city:": ('{"name": "Ada", "age": 36, "city": "London"}',),
    "Generate a log entry:": ("[2024-01-01T12:00:00Z] INFO: System.process - Operation ended successfully",),
}
"""Texts that are completed without a chat template."""
RAW_BEGINNINGS: list[tuple[str, str, str]] = [
    (
        "Generate a log entry:",
        "[2024-01-01T12:00:00Z] INFO: System.process - Operation ",
        "ended successfully",
    ),
    ("Generate a simple JSON with name, age, and city:", '{"name":"', 'Ada","age":36,"city":"London"}'),
]
"""The same where a grammar begins."""
CAPITALS = {
    "France": "Paris",
    "Germany": "Berlin",
    "Italy": "Rome",
    "Japan": "Tokyo",
    "Spain": "Madrid",
    "Egypt": "Cairo",
    "Russia": "Moscow",
    "Australia": "Canberra",
}
ONE_WORD = "You are a helpful assistant. Answer with a single word.\n"
THOUGHT = (
    "I should look at what is asked, and then say it in one line.",
    "This is a small matter, so I can be brief.",
)
"""What it thinks where its template has it think."""
AFTER: dict[str, tuple[str, tuple[str, ...]]] = {
    "Give me another one with a different name and age": (ASKED_PROFILE, (PROFILE,)),
    "Give me a different one": (
        f"Give an example IP address with this regex: {ADDRESS}",
        ("192.168.0.1", "127.0.0.1"),
    ),
    "I disagree, pick another one": (
        "The best language for type-safe systems programming is ",
        ("C++", "Kotlin"),
    ),
}
"""What was asked and said before a question."""
