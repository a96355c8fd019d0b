"""What is known by its form, wherever it stands and however its digits are written."""

import importlib
import pkgutil
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.core.pipeline import PersonalDataSpan
from radixway.semantics.guard.pii import recognisers
from radixway.semantics.guard.pii.recognisers import STRUCTURED_TYPES, find_structured
from radixway.semantics.guard.pii.recognisers.structured import _RECOGNISERS
from support.structured_data import CHECKED, VALID, nearly

DEFAULT_THRESHOLD = 0.7

WORDS = st.text(alphabet="abcdefgh XYZ,.!?\n中文的，。é", max_size=30)
SOURCES = st.integers(0, 2**32).map(random.Random)
ZERO_WIDTH = "\u200b"


def sure(text):
    return [f for f in find_structured(text) if f.confidence >= DEFAULT_THRESHOLD]


def texts(text):
    return [(f.type, text[f.begin : f.end]) for f in sure(text)]


@given(st.sampled_from(sorted(VALID)), SOURCES, WORDS, WORDS)
def test_it_is_found_at_its_exact_place_whatever_stands_around_it(type_, source, before, after):
    value = VALID[type_](source)
    text = f"{before} {value} {after}"
    begin = len(before) + 1
    assert (type_, begin, begin + len(value)) in [(f.type, f.begin, f.end) for f in sure(text)]


@given(st.sampled_from(CHECKED), SOURCES)
def test_a_number_whose_check_digit_is_wrong_is_not_found_as_one(type_, source):
    assert type_ not in [f.type for f in find_structured(f"My number: {nearly(VALID[type_](source))}.")]


@given(st.text(alphabet="0123456789 .-+()@:/xX,aAbe中\u200b０１－", max_size=120))
def test_findings_are_in_order_apart_and_within_the_text(text):
    findings = find_structured(text)
    edges = [edge for f in findings for edge in (f.begin, f.end)]
    assert edges == sorted(edges) and all(f.begin < f.end <= len(text) for f in findings)
    assert all(0 < f.confidence < 1 and f.type in STRUCTURED_TYPES for f in findings)


@given(st.sampled_from(sorted(set(VALID) - {"EMAIL_ADDRESS"})), SOURCES, st.data())
def test_zero_width_characters_within_a_number_hide_nothing(type_, source, data):
    value = VALID[type_](source)
    at = data.draw(st.integers(1, len(value) - 1))
    hidden = value[:at] + ZERO_WIDTH + value[at:]
    assert (type_, hidden) in texts(f"see {hidden} there")


@given(st.sampled_from(sorted(set(VALID) - {"EMAIL_ADDRESS"})), SOURCES)
def test_full_width_digits_and_other_hyphens_and_spaces_hide_nothing(type_, source):
    value = VALID[type_](source)
    hidden = value.translate(
        {ord(d): ord(d) + 0xFEE0 for d in "0123456789"} | {ord("-"): 0x2011, ord(" "): 0xA0}
    )
    assert (type_, hidden) in texts(f"see {hidden} there")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("My SSN is 123-45-6789.", [("US_SSN", "123-45-6789")]),
        ("social security 123456789", [("US_SSN", "123456789")]),
        ('{"creditCardNumber": "4111111111111111"}', [("CREDIT_CARD", "4111111111111111")]),
        ('{"phoneNumber": 4155552671}', [("PHONE_NUMBER", "4155552671")]),
        ('{"socialSecurityNumber": 123456789}', [("US_SSN", "123456789")]),
        ("my card: 4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", [("CREDIT_CARD", "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1")]),
        ("card 4111-1111-1111-1111 exp 12/27", [("CREDIT_CARD", "4111-1111-1111-1111")]),
        ("Amex 3782 822463 10005", [("CREDIT_CARD", "3782 822463 10005")]),
        ("GB82 WEST 1234 5698 7654 32 is mine", [("IBAN_CODE", "GB82 WEST 1234 5698 7654 32")]),
        ("gb82west12345698765432", [("IBAN_CODE", "gb82west12345698765432")]),
        ("write to joe.doe+x@mail.example.co.uk.", [("EMAIL_ADDRESS", "joe.doe+x@mail.example.co.uk")]),
        ("joe (at) example.com", [("EMAIL_ADDRESS", "joe (at) example.com")]),
        ("joe[at]example[dot]com", [("EMAIL_ADDRESS", "joe[at]example[dot]com")]),
        ("it is joe.doe at example dot com", [("EMAIL_ADDRESS", "joe.doe at example dot com")]),
        ("joe@example.com.Thanks", [("EMAIL_ADDRESS", "joe@example.com")]),
        ("call (415) 555-2671 x12", [("PHONE_NUMBER", "(415) 555-2671 x12")]),
        ("+46 (0)8 928 571 38", [("PHONE_NUMBER", "+46 (0)8 928 571 38")]),
        ("They're not answering at 78 651 450", [("PHONE_NUMBER", "78 651 450")]),
        ("客服400-820-8820", [("PHONE_NUMBER", "400-820-8820")]),
        ("手机号：138 0013 8000", [("PHONE_NUMBER", "138 0013 8000")]),
        ("我的邮箱是test@qq.com。", [("EMAIL_ADDRESS", "test@qq.com")]),
        ("电话010-62345678", [("PHONE_NUMBER", "010-62345678")]),
        ("身份证号360426199101010071，谢谢", [("CN_ID_CARD", "360426199101010071")]),
        ("旧身份证 110101900307123", [("CN_ID_CARD", "110101900307123")]),
        ("ping 192.168.1.10", [("IP_ADDRESS", "192.168.1.10")]),
        ("at fe80::1ff:fe23:4567:890a", [("IP_ADDRESS", "fe80::1ff:fe23:4567:890a")]),
        ("node:fe80::1:abcd:12", [("IP_ADDRESS", "fe80::1:abcd:12")]),
    ],
)  # fmt: skip
def test_it_is_found_in_the_forms_that_people_write(text, expected):
    assert texts(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "666-45-6789 and 000-12-3456 and 123-00-6789 were never given out",
        "Chrome version 120.0.6099.109, v10.20.30.40",
        "std::vector<a::b> x; y[1::2]",
        "git clone git@github.com:owner/name.git",
        "pi is 3.14159265358979323846 and e is 2.718281828459045",
        "0.4111111111111111",
        "1,234,567,890 people and 1 000 000 more",
        "order 12345678, room 1234567",
        "@decorator\ndef f(): pass  # npm i @scope/name@1.2.3",
        "999.999.999.999",
        "the 10.0.0.0/8 network, mask 255.255.255.0, localhost 127.0.0.1",
        "firmware 30.2.11.40, upgraded to 21.22.23.24, SQL Server 15.0.4.2, the 21.22.23.24 release",
        "numbers such as 123-456-7890 and 555-555-5555",
        "mixed 1:2:3:4:5:6:7:8, WWN 50:01:43:80:02:a3:1c:7f, 300-200-1000 of 13812345678",
        "Part number 212-555-0187, 订单号 13800138000",
    ],
)
def test_what_only_looks_like_it_is_left_alone(text):
    assert texts(text) == []


def test_a_word_beside_a_number_raises_its_confidence():
    def confidence(text):
        return max((f.confidence for f in find_structured(text)), default=0)

    assert confidence("078 05 1121") < DEFAULT_THRESHOLD <= confidence("my SSN: 078 05 1121")
    assert confidence("12345678") < DEFAULT_THRESHOLD <= confidence("call me on 12345678")


def test_a_finding_counts_characters_of_the_text_that_was_given():
    text = "号\u200b码\u200b：４１１１\u200b１１１１１１１１１１１１\u200b。"
    [finding] = find_structured(text)
    assert finding == PersonalDataSpan("CREDIT_CARD", 5, 22, finding.confidence)
    assert text[5:22] == "４１１１\u200b１１１１１１１１１１１１"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see https://files.example.org:8080/a?b=c", [("DOMAIN_NAME", "files.example.org")]),
        ("see https://www.example.org/.", [("DOMAIN_NAME", "https://www.example.org/")]),
        ("http://jane.example.com and more", [("DOMAIN_NAME", "http://jane.example.com")]),
        ("My site is www.jane-doe.photography.", [("DOMAIN_NAME", "www.jane-doe.photography")]),
        ("bought on bücher.de yesterday", [("DOMAIN_NAME", "bücher.de")]),
        ("my website: jane.me", [("DOMAIN_NAME", "jane.me")]),
        ("My driver's license number is F162-8235-4011", [("US_DRIVER_LICENSE", "F162-8235-4011")]),
        ("DL: D1234567 (California)", [("US_DRIVER_LICENSE", "D1234567")]),
        ("Springfield, IL 62704-1234", [("ZIP_CODE", "62704-1234")]),
        ("my zip code is 90210", [("ZIP_CODE", "90210")]),
        ("London SW1A 1AA, UK", [("ZIP_CODE", "SW1A 1AA")]),
        ("postcode m1 1ae", [("ZIP_CODE", "m1 1ae")]),
        ("Ottawa K1A 0B1", [("ZIP_CODE", "K1A 0B1")]),
        ("邮编：100080", [("ZIP_CODE", "100080")]),
        ("at 350 Fifth Avenue, Apt 12B, by bus", [("STREET_ADDRESS", "350 Fifth Avenue, Apt 12B")]),
        ("send it to P.O. Box 1234", [("STREET_ADDRESS", "P.O. Box 1234")]),
        ("我住在海淀区中关村大街27号502室。", [("STREET_ADDRESS", "海淀区中关村大街27号502室")]),
        ("born 12/27/1986", [("DATE_TIME", "12/27/1986")]),
        ("on 2000-04-16 11:34:35 sharp", [("DATE_TIME", "2000-04-16 11:34:35")]),
        ("since March 3rd, 2019", [("DATE_TIME", "March 3rd, 2019")]),
        ("since 3 March 2019 at 10:30 am", [("DATE_TIME", "3 March 2019 at 10:30 am")]),
        ("meet at 7:30 p.m. today", [("DATE_TIME", "7:30 p.m.")]),
        ("出生于1990年3月7日", [("DATE_TIME", "1990年3月7日")]),
        ("a man aged 34, a 7-year-old girl", [("AGE", "34"), ("AGE", "7")]),
        ("她今年34岁", [("AGE", "34")]),
        ("我儿子五岁，妈妈六十二岁", [("AGE", "五"), ("AGE", "六十二")]),
        ("I'm 41, she is thirty-four years old", [("AGE", "41"), ("AGE", "thirty-four")]),
    ],
)  # fmt: skip
def test_names_places_and_days_are_found_in_the_forms_that_people_write(text, expected):
    assert texts(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "run main.py, read README.md and np.array([1]) with obj.method(2)",
        "self.name = df.at; import os.path; a.b.com_port",
        "It works.In fact ASP.NET and socket.io do, e.g. i.e. U.S. Ph.D",
        "C:\\files\\data.com and /srv/www/site.org/index",
        "10001 people, 94105 dollars, in 12345 ways",
        "the OR 12,345 and ME 12345.67",
        "A1B2C3 and x1a 0b1",
        "look at example, dot products at 3 dot 5 and at home dot dot dot",
        "1 2 3 4 5 6 7 8 9 8 7 6 5 4 3 2 1",
        "3.5 in a ratio of 16:9, at 10.30.2",
        "she is 34 km away, I am 100% sure, he is 20, 30 or 40 points ahead, 万岁",
        "page 34, aged cheese, turn 90 degrees, average 25",
        "about 2 Great Ways to do it",
    ],
)
def test_code_and_plain_numbers_are_no_names_places_or_days(text):
    assert texts(text) == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("We live at 12 Elm Street, Portland, 97205.", "97205"),
        ("Hauptstraße 5, 10115 Berlin", "10115"),
        ("I moved to Chicago 60614 and love it", "60614"),
        ("weather in 30309, please", "30309"),
        ("the 94110 area", "94110"),
        ("Keizersgracht 1, 1015 CJ Amsterdam", "1015 CJ"),
        ("Sydney NSW 2000", "2000"),
        ("shipping address: Lima\nPeru 15074", "15074"),
        ("北京市海淀区中关村大街27号 100080", "100080"),
    ],
)
def test_a_postal_code_is_known_by_the_street_or_place_beside_it(text, code):
    assert ("ZIP_CODE", code) in texts(text)


@pytest.mark.parametrize(
    "text",
    [
        "Pico della Mirandola, Oration on the Dignity of Man, 1486",
        "In China 20000 people moved to Suite 68311",
        "Paris 2024, Sydney 2000 and Rome 1960",
        "12 Main Street sold for 45000 dollars",
        "Height in mum: 0 25 50 75 100; ISBN 0-306-40615-2",
        "the Memory address: Chicago offset 60614x",
    ],
)
def test_a_year_and_a_quantity_beside_a_place_are_no_postal_code(text):
    assert not {"ZIP_CODE", "PHONE_NUMBER"} & {type_ for type_, _ in texts(text)}


def test_every_module_with_a_recogniser_lists_it():
    listed = {each.find for each in _RECOGNISERS}
    for module in pkgutil.iter_modules(recognisers.__path__):
        functions = vars(importlib.import_module(f"{recognisers.__name__}.{module.name}"))
        own = {
            function
            for name, function in functions.items()
            if name.startswith("find_") and function.__module__.endswith(f".{module.name}")
        }
        assert module.name == "structured" or own <= listed
