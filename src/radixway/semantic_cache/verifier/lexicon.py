"""Words the rules know: filler that asks but says nothing, words of one meaning, words of opposite meaning.

Written for this project. Each line of a list is one group or pair; forms are found by their stems.
"""

from __future__ import annotations

import re

from radixway.semantic_cache.verifier.stems import bare

FILLER = frozenset(
    """
    a an the this that these those there here it its they them their we us our i me my mine you your u he she his her
    him is are was were be been being am do does did done doing have has had having will would shall should can could
    may might must to of in on at for with about into as by and or but so if then than very really just actually
    basically exactly simply also too please kindly tell explain describe know understand let define what which who whom
    whose when where why how any some someone anyone anybody somebody something anything one ones thing things
    get gets got getting make makes made making go goes going use uses used using give gives given take
    way ways best good better well possible possibly like want need able help quick quickly easy easily
    main most many much lot lots kind kinds type types sort different various certain meant mean means meaning
    called name considered work works ever still even s t re ve ll d m etc
    """.split()
) - {"most", "many", "much", "than", "from", "better", "best", "good", "easy", "quick", "different"}

NUMERALS = {
    word: str(value)
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen".split()
    )
    if word != "one"
}
"""`one` is more often no number."""

_SAME = """
    usa united-states america us-of-a
    uk united-kingdom britain great-britain
    buy purchase
    begin start commence
    finish end complete conclude
    quick fast rapid swift quickly speedy
    big large huge
    small little tiny
    repair fix mend
    error bug fault
    movie film
    picture photo image photograph
    car automobile
    phone telephone cellphone smartphone
    job occupation
    doctor physician
    kid child children
    sick ill unwell
    begin start
    reply answer respond
    choose select pick
    improve enhance better
    tall height
    deep depth
    wide width
    far distance
    old age
    reduce decrease lower lessen
    increase raise
    delete remove erase
    create build make generate develop
    show display
    find locate
    obtain acquire
    error mistake
    hard difficult tough
    easy simple
    happen occur
    difference distinction differ different
    benefit advantage pro
    drawback disadvantage con downside
    important significant crucial essential necessary
    famous popular well-known
    intelligent smart clever
    rich wealthy
    beautiful pretty
    dangerous risky hazardous
    method approach technique
    example instance
    reason cause
    earn make-money
    weight-loss lose-weight
    learn study
    teach instruct
    cost price
    trip journey travel
    sofa couch
    shop store
    gift present
    holiday vacation
    rubbish trash garbage
    student pupil
    teacher instructor
    laptop notebook
    website site web-site webpage
    password passcode
    application app program
    sum add plus addition
    subtract minus
    multiply times multiplication
    divide division
    compute calculate work-out
    summarize summary summarise
    abbreviation acronym
    capital-city capital
    speech talk
    convert transform
    allow permit let
    forbid prohibit ban
    stop quit cease
    show demonstrate prove proof
    assist help aid
    author writer write wrote written
    begin-with start-with
    city town
    company firm corporation
    country nation
    illness disease sickness
    signs symptom
    treat cure treatment
    operate run
    verify check confirm
    modify change alter edit
    largest biggest
    greatest best
    interesting fascinating
    ability skill
    entire whole
    overcome stop
    tv television
    incident event
    fiction novel
    approach strategy
    exam examination test
    college university
    funny hilarious
    scary frightening
    strange weird odd
    smallest tiniest
    gym fitness
    currency money cash
    invent inventor invention
    discover discovery
    found founder establish
    dead die death dies died dying
    born birth
    alive live life living
"""

_DEMONYMS = """
    germany german germans
    france french
    spain spanish spaniards
    italy italian italians
    portugal portuguese
    britain british
    england english
    ireland irish
    scotland scottish
    netherlands dutch
    belgium belgian
    switzerland swiss
    austria austrian
    sweden swedish
    norway norwegian
    denmark danish
    finland finnish
    poland polish
    greece greek greeks
    turkey turkish
    russia russian russians
    ukraine ukrainian
    china chinese
    japan japanese
    korea korean koreans
    india indian indians
    pakistan pakistani
    bangladesh bangladeshi
    thailand thai
    vietnam vietnamese
    indonesia indonesian
    philippines filipino
    australia australian australians
    canada canadian canadians
    america american americans
    mexico mexican mexicans
    brazil brazilian
    argentina argentine argentinian
    chile chilean
    egypt egyptian
    nigeria nigerian
    kenya kenyan
    israel israeli
    iran iranian
    iraq iraqi
    rome roman romans
    europe european europeans
    africa african africans
    asia asian asians
"""
"""Places and what is of them. As languages they stay what they are (`names.LANGUAGES`)."""

_OPPOSITES = """
    on off
    up down
    in out
    safe unsafe
    safe dangerous
    true false
    yes no
    good bad
    best worst
    better worse
    more less
    more fewer
    most least
    most fewest
    max min
    maximum minimum
    maximize minimize
    high low
    higher lower
    highest lowest
    big small
    bigger smaller
    biggest smallest
    largest smallest
    long short
    longer shorter
    longest shortest
    tallest shortest
    fast slow
    fastest slowest
    hot cold
    hottest coldest
    warm cool
    first last
    first second
    second third
    early late
    earliest latest
    oldest youngest
    oldest newest
    old new
    before after
    begin finish
    open close
    open shut
    enable disable
    activate deactivate
    install uninstall
    allow forbid
    allow block
    lock unlock
    encrypt decrypt
    encode decode
    compress decompress
    connect disconnect
    attach detach
    increase reduce
    raise lower
    rise fall
    grow shrink
    gain lose
    win lose
    buy sell
    lend borrow
    import export
    upload download
    push pull
    send receive
    add subtract
    add remove
    add delete
    insert delete
    create delete
    create destroy
    multiply divide
    save spend
    credit debit
    profit loss
    asset liability
    benefit drawback
    strength weakness
    love hate
    like dislike
    accept reject
    accept decline
    agree disagree
    approve reject
    follow unfollow
    subscribe unsubscribe
    mute unmute
    hide show
    freeze thaw
    freeze melt
    boil freeze
    arrive depart
    arrive leave
    enter exit
    start stop
    pause resume
    join leave
    left right
    north south
    east west
    top bottom
    front back
    inside outside
    indoor outdoor
    internal external
    public private
    male female
    man woman
    men women
    boy girl
    husband wife
    father mother
    son daughter
    brother sister
    king queen
    uncle aunt
    day night
    morning evening
    morning afternoon
    afternoon evening
    today tomorrow
    today yesterday
    yesterday tomorrow
    summer winter
    spring autumn
    weekday weekend
    daily weekly
    weekly monthly
    monthly yearly
    monthly annual
    daily monthly
    past future
    ancient modern
    legal illegal
    possible impossible
    healthy unhealthy
    positive negative
    active passive
    active inactive
    odd even
    prime composite
    ascending descending
    horizontal vertical
    vertical horizontal
    row column
    rows columns
    series parallel
    serial parallel
    synchronous asynchronous
    sync async
    static dynamic
    mutable immutable
    local global
    local remote
    client server
    input output
    read write
    encode decode
    sender receiver
    employer employee
    buyer seller
    teacher student
    landlord tenant
    parent child
    ancestor descendant
    supply demand
    inflation deflation
    bull bear
    long-term short-term
    acid base
    acidic alkaline
    proton electron
    virus bacteria
    bacterial viral
    artery vein
    plant animal
    herbivore carnivore
    mitosis meiosis
    solid liquid
    liquid gas
    metal nonmetal
    solar lunar
    sunrise sunset
    heavy light
    light dark
    bright dark
    black white
    wet dry
    clean dirty
    full empty
    rich poor
    cheap expensive
    cheapest expensive
    strong weak
    thick thin
    wide narrow
    deep shallow
    loud quiet
    sweet sour
    sharp dull
    alive dead
    born dead
    guilty innocent
    formal informal
    optional mandatory
    optional required
    include exclude
    inclusive exclusive
    always never
    always sometimes
    often rarely
    all none
    every some
    everyone nobody
    with without
    above below
    over under
    near far
    hot cold
    cooked raw
    raw pasteurized
    boiled fried
    gas electric
    manual automatic
    wired wireless
    tcp udp
    http https
    ipv4 ipv6
    sql nosql
    stack queue
    list tuple
    get post
    merge rebase
    mean median
    median mode
    mean mode
    variance covariance
    derivative integral
    sine cosine
    sin cos
    area perimeter
    area volume
    radius diameter
    length width
    speed acceleration
    velocity acceleration
    mass weight
    voltage current
    republican democrat
    plaintiff defendant
    civil criminal
    mother father
    import export
    checking savings
    deposit withdraw
    withdrawal deposit
    transfer withdraw
    physical virtual
    debit credit
    visa mastercard
    prefix postfix
    prefix suffix
    singular plural
    verb noun
    synonym antonym
    vegan keto
    breakfast dinner
    breakfast lunch
    lunch dinner
    tea coffee
    cat dog
    cats dogs
    ios android
    windows linux
    windows mac
    mac linux
    chrome firefox
    hardware software
    frontend backend
    compile interpret
    compiled interpreted
    supervised unsupervised
    overfitting underfitting
    precision recall
    latency throughput
    horizontal vertical
    upstream downstream
    uphill downhill
    upgrade downgrade
    upper lower
    superior inferior
    majority minority
    optimist pessimist
    introvert extrovert
    employer employee
    major minor
    acute chronic
    hyper hypo
    hypertension hypotension
    hyperthyroidism hypothyroidism
    systolic diastolic
    inhale exhale
    inductive deductive
    qualitative quantitative
    monarchy republic
    import export
    fiction nonfiction
    difference similarity
    different similar
    different same
    against for
    amateur professional
    beginner advanced
    beginner expert
    adult child
    adults children
    married single
    sunny rainy
    sooner later
    earlier later
    forward backward
    forwards backwards
    clockwise counterclockwise
    rotate translate
    send get
    domestic international
    gross net
    fixed variable
    simple compound
    primary secondary
    soluble insoluble
    rational irrational
    finite infinite
    convex concave
    discrete continuous
    clothed naked
"""

ALIASES = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (r"\bu\.s\.a?\.?(?=\W|$)|\bunited states(?: of america)?\b", "usa"),
        (r"\bu\.k\.?(?=\W|$)|\bunited kingdom\b|\bgreat britain\b", "uk"),
        (r"\b(?:and )?why or why not\b|\bor not\b|\bwhether or not\b", " "),
        (r"\bcapital city\b", "capital"),
        (r"\b(?:best|good|right|proper|better) ways? (?:to|of|for)\b", "way to"),
        (r"^(?:give|write|provide|make|create)(?: me)? an? (?:summary|overview) (?:of|for)\b", "summarize"),
        (r"^(?:give|write|provide)(?: me)? an? explanation (?:of|for)\b", "explain"),
        (r"^(?:give|provide)(?: me)? (?:an?|the) (?:definition|meaning) of\b", "define"),
        (r"\bmachine learning\b", "ml"),
        (r"\bartificial intelligence\b", "ai"),
        (r"\blose weight\b|\bweight loss\b|\blosing weight\b", "weightloss"),
        (r"\bwork out\b(?= \w*\d)", "calculate"),
        (r"\b(?:make|earn|making|earning) money\b", "earnmoney"),
        (r"\bfan base\b", "fanbase"),
        (r"\bset up\b", "setup"),
        (r"\blog in\b|\bsign in\b|\blogin\b", "login"),
        (r"\bsquare roots?\b", "squareroot"),
        (r"\bmultiplied by\b", "times"),
        (r"\bdivided by\b", "divided"),
        (r"\badded to\b", "plus"),
        (r"\bnew york city\b", "nyc"),
        (r"\bgot rid of\b|\bget rid of\b|\bgetting rid of\b", "remove"),
        (r"\bturn(?:ed|ing|s)? on\b|\bswitch on\b", "enable"),
        (r"\bturn(?:ed|ing|s)? off\b|\bswitch off\b", "disable"),
    )
)


def _name_of_each() -> dict[str, str]:
    """By word and by stem, the stem of the first word of its line in `_SAME` or `_DEMONYMS`."""
    names: dict[str, str] = {}
    for words in filter(None, map(str.split, (_SAME + _DEMONYMS).splitlines())):
        name = names.get(words[0], bare(words[0]))
        for word in words:
            names.setdefault(word, name)
            names.setdefault(bare(word), name)
    return names


SYNONYMS = _name_of_each()
"""What a word is called when it is compared."""


def _pairs() -> frozenset[tuple[str, str]]:
    pairs = set()
    for line in _OPPOSITES.strip().splitlines():
        one, other = (SYNONYMS.get(word) or SYNONYMS.get(bare(word), bare(word)) for word in line.split())
        if one != other:
            pairs |= {(one, other), (other, one)}
    return frozenset(pairs)


OPPOSITES = _pairs()
"""Stems of opposite meaning, each pair both ways round."""
