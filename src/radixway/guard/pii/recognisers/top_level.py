"""Top-level domains: countries' (ISO 3166, IANA) and the generic ones that people have addresses under."""

from __future__ import annotations

_COUNTRIES = """
ac ad ae af ag ai al am ao aq ar as at au aw ax az ba bb bd be bf bg bh bi bj bm bn bo br bs bt bw by bz
ca cc cd cf cg ch ci ck cl cm cn co cr cu cv cw cx cy cz de dj dk dm do dz ec ee eg er es et eu fi fj fk
fm fo fr ga gd ge gf gg gh gi gl gm gn gp gq gr gs gt gu gw gy hk hm hn hr ht hu id ie il im in io iq ir
is it je jm jo jp ke kg kh ki km kn kp kr kw ky kz la lb lc li lk lr ls lt lu lv ly ma mc md me mg mh mk
ml mm mn mo mp mq mr ms mt mu mv mw mx my mz na nc ne nf ng ni nl no np nr nu nz om pa pe pf pg ph pk pl
pm pn pr ps pt pw py qa re ro rs ru rw sa sb sc sd se sg sh si sk sl sm sn so sr ss st su sv sx sy sz tc
td tf tg th tj tk tl tm tn to tr tt tv tw tz ua ug uk us uy uz va vc ve vg vi vn vu wf ws ye yt za zm zw
"""
_GENERIC = """
academy agency app art asia bank bar berlin biz blog business cafe care cat center chat city cloud club
codes com community company computer consulting coop design dev digital directory doctor edu education
email energy engineer events example expert express family farm finance fit fun fund gallery games global
gmbh gold golf gov group guru health help homes host hotel house info ink institute international
investments jobs law legal life limited link live llc local london ltd management market marketing media
mil mobi money movie museum name net network news ngo nyc one onl online org page paris partners photo
photography photos plus post press pro productions properties pub red rent restaurant review rocks run
sale school science security services shop show site ski social software solutions space store studio
style support systems tax team tech technology tel test tips today tools top tours town toys travel
university vip watch web website wiki win wine work works world wtf xyz zone
"""
"""With `test` and `example` (RFC 2606), which mailboxes in examples are under."""

_MOST_LABELS = 127
_KNOWN = frozenset((_COUNTRIES + _GENERIC).split())


def is_top_level(label: str) -> bool:
    """Whether names end so, in any case; punycode's names count."""
    label = label.lower()
    return label in _KNOWN or label.startswith("xn--")


def known_length(name: str) -> int:
    """How much of a dotted name ends in a top-level domain: `host.com` of `host.com.Thanks`; 0: nothing.

    Linear: only as many labels are looked at as a name may have.
    """
    for _ in range(_MOST_LABELS):
        head, dot, last = name.rpartition(".")
        if not dot:
            return 0
        if is_top_level(last):
            return len(name)
        name = head
    return 0
