"""Sentences that the text packages lack: how people talk to an assistant and how it answers.

`GRAMMAR` maps a slot to its alternatives; `{slot}` inside an alternative is filled again. Numbers, dates, times and
prices are drawn by functions, half of them as digits: the phonemizer reads those as it will in use.
"""

import random
import re

_LISTS = {
    "noun": """dog cat book train car house window garden kitchen computer phone coffee bread river mountain doctor
        teacher friend sister brother meeting office project question answer story song movie game door table chair
        street city country school ticket weather evening holiday problem idea plan recipe picture letter message
        number name lamp bottle camera bridge island forest beach hotel airport museum library market restaurant
        bakery hospital factory engine battery keyboard screen printer button folder website password email
        calendar reminder report budget contract lesson exercise language sentence word planet ocean desert storm
        cloud flower tree apple orange sandwich salad soup chicken cheese cake breakfast dinner jacket shirt shoe
        umbrella bicycle truck boat plane neighbor manager engineer artist singer writer lawyer nurse pilot judge
        student child parent uncle cousin team company customer partner stranger guitar piano violin drum theory
        experiment machine robot satellite rocket galaxy molecule protein theorem equation function variable
        program server network signal channel speech voice accent melody rhythm dream secret promise journey
        discovery adventure mystery habit mistake decision opinion argument suggestion example difference""",
    "adjective": """small big old new red blue green cold warm quiet loud happy sad simple hard easy long short early
        late nice good bad great clean dark bright fresh busy free cheap strong kind gentle curious strange familiar
        expensive beautiful useful careful important possible difficult popular serious funny honest polite
        wonderful terrible delicious modern ancient huge tiny heavy light smooth rough narrow wide deep shallow
        sharp soft thick thin sweet bitter wild calm nervous proud brave lazy clever patient reliable unusual
        ordinary comfortable dangerous electric digital automatic historical scientific musical natural""",
    "verb": """see find open close read write start finish fix move paint clean check bring take make change send show
        build draw carry choose compare copy count cover describe design destroy discover discuss download draft
        edit enjoy examine explain explore follow forget guess hide ignore imagine improve invite join keep learn
        measure mention notice offer order organize prepare print protect prove pull push record remember remove
        repair replace save search sell share study summarize test thank translate understand update visit watch""",
    "when": """today|tomorrow|tonight|this morning|this afternoon|on Monday|on Tuesday|on Wednesday|on Thursday|on
        Friday|on Saturday|on Sunday|next week|next month|in the afternoon|at noon|right now|every day|after lunch|
        before dinner|in a few minutes|in an hour|later this year|over the weekend|last night|yesterday|once a week|
        in the spring|in the summer|in autumn|in winter|at midnight|as soon as possible""",
    "first": """James Mary John Patricia Robert Jennifer Michael Linda William Elizabeth David Barbara Richard Susan
        Joseph Jessica Thomas Sarah Charles Karen Daniel Nancy Matthew Lisa Anthony Betty Mark Sandra Paul Ashley
        Steven Emily Andrew Donna Joshua Michelle Kevin Carol Brian Amanda George Melissa Edward Deborah Ronald
        Stephanie Timothy Rebecca Jason Laura Jeffrey Helen Ryan Sharon Jacob Cynthia Gary Kathleen Nicholas Amy Eric
        Angela Jonathan Shirley Stephen Anna Larry Brenda Justin Pamela Scott Emma Brandon Nicole Benjamin Samantha
        Samuel Katherine Gregory Christine Frank Rachel Alexander Olivia Raymond Maria Patrick Sophia Jack Grace
        Dennis Hannah Henry Alice Peter Julia Walter Chloe Oliver Lucy Leo Isabella Noah Ava Liam Mia Ethan Zoe
        Carlos Sofia Ahmed Fatima Hiroshi Yuki Wei Mei Ivan Olga Pierre Camille Hans Ingrid Raj Priya Luca Giulia""",
    "last": """Smith Johnson Williams Brown Jones Garcia Miller Davis Rodriguez Martinez Anderson Taylor Thomas Moore
        Jackson Martin Lee Thompson White Harrison Clark Lewis Robinson Walker Young Allen King Wright Scott Green
        Baker Adams Nelson Hill Campbell Mitchell Roberts Carter Phillips Evans Turner Parker Edwards Collins Stewart
        Morris Rogers Reed Cook Morgan Bell Murphy Bailey Cooper Richardson Cox Howard Ward Peterson Gray Watson
        Brooks Kelly Sanders Price Bennett Wood Barnes Ross Henderson Coleman Jenkins Perry Powell Patterson Hughes
        Einstein Newton Darwin Curie Mozart Shakespeare Picasso Columbus Lincoln Washington Edison Tesla""",
    "place": """London|Paris|New York|Chicago|Boston|Seattle|San Francisco|Los Angeles|Tokyo|Berlin|Madrid|Rome|
        Vienna|Dublin|Edinburgh|Sydney|Melbourne|Toronto|Montreal|Mexico City|Cairo|Nairobi|Mumbai|Delhi|Beijing|
        Shanghai|Seoul|Singapore|Bangkok|Istanbul|Athens|Moscow|Stockholm|Copenhagen|Amsterdam|Brussels|Zurich|
        Prague|Warsaw|Budapest|Barcelona|Lisbon|Houston|Dallas|Miami|Atlanta|Philadelphia|Detroit|Portland|Austin|
        California|Texas|Florida|Alaska|Hawaii|Virginia|Canada|Mexico|Brazil|Argentina|Chile|Spain|France|Germany|
        Italy|Greece|Turkey|Egypt|Kenya|Nigeria|South Africa|India|China|Japan|Korea|Australia|New Zealand|Norway|
        Sweden|Finland|Denmark|Poland|Ukraine|Ireland|Scotland|Wales|England|Portugal|Switzerland|Austria""",
    "subject": """photosynthesis|gravity|the water cycle|black holes|machine learning|quantum mechanics|the French
        Revolution|the Roman Empire|jazz music|chess|basketball|soccer|baking bread|growing tomatoes|learning to play
        the guitar|public speaking|saving money|healthy eating|the stock market|climate change|solar power|electric
        cars|artificial intelligence|speech recognition|computer networks|the human heart|the immune system|ancient
        Greece|modern art|classical music|yoga|meditation|hiking|photography|gardening|knitting|swimming|running|
        time management|job interviews|writing poetry|dinosaurs|volcanoes|earthquakes|the solar system|penguins|
        whales|honey bees|coffee|tea|chocolate|cheese|the history of writing|the alphabet|probability|geometry""",
    "month": "January February March April May June July August September October November December",
    "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "thing": "dollars|euros|people|kilometers|miles|minutes|hours|days|weeks|years|pages|students|percent|degrees|"
    "kilograms|pounds|meters|feet|items|words|seconds|gallons|liters|cups|steps",
}

GRAMMAR = {name: re.split(r"\|" if "|" in text else r"\s+", re.sub(r"\s+", " ", text)) for name, text in _LISTS.items()}
GRAMMAR = {name: [word.strip() for word in words] for name, words in GRAMMAR.items()}
# fmt: off
GRAMMAR |= {
    "thing_said": [
        "the {adjective} {noun}", "a {adjective} {noun}", "the {noun}", "my {noun}", "your {noun}", "this {noun}",
        "that {adjective} {noun}", "{first}'s {noun}",
    ],
    "person": [
        "{first}", "{first} {last}", "Doctor {last}", "Mr. {last}", "Mrs. {last}", "Ms. {last}", "Professor {last}",
        "my friend {first}", "Dr. {last}",
    ],
    "plain": [
        "I think {thing_said} is {adjective}, but {thing_said} is {adjective}.", "{person} will {verb} it {when}.",
        "We should {verb} {thing_said} {when}.", "It is a {adjective} {noun}, and I like it.",
        "There are two {adjective} {noun}s near the {noun}.", "No, I do not have a {adjective} {noun}.",
        "{person} could not {verb} {thing_said}, so {person} had to {verb} it.", "I saw {person} in {place} {when}.",
        "They want to {verb} {thing_said} and {verb} {thing_said}.", "My name is {first} and I live in {place}.",
        "She said that {thing_said} was more {adjective} than {thing_said}.", "That sounds {adjective} to me.",
        "He didn't {verb} {thing_said}, because it wasn't {adjective} enough.", "It's {adjective}, isn't it?",
        "We'll {verb} {thing_said}, then we'll {verb} {thing_said}, and after that we can {verb} {thing_said}.",
    ],
    "question": [
        "Could you please {verb} {thing_said}?", "What do you think about {thing_said}?", "Where is {thing_said}?",
        "Why is {thing_said} so {adjective}?", "Did you {verb} {thing_said} {when}?", "Who is {person}?",
        "How do I {verb} {thing_said}?", "When will {person} {verb} {thing_said}?", "Can you tell me about {subject}?",
        "What is the best way to {verb} {thing_said}?", "Is {place} far from {place}?", "How old is {person}?",
        "Would you like to {verb} {thing_said}, or should we {verb} {thing_said}?", "Have you been to {place}?",
        "What's the weather like in {place} {when}?", "Which {noun} is {adjective}?", "Are you {adjective}?",
        "How far is it from {place} to {place}?", "Why did {person} {verb} {thing_said}?", "What is {subject}?",
        "Do you know how {subject} works?", "What time is it in {place}?", "Can I {verb} your {noun}?",
    ],
    "opener": [
        "Sure!", "Sure,", "Of course.", "Good question.", "Great question!", "Certainly.", "Yes,", "No,", "Well,",
        "I see.", "Okay,", "All right,", "Let me think.", "Hmm,", "Actually,", "That's a great idea!", "Right,",
        "Thanks for asking.", "I understand.", "Interesting!", "No problem.", "Absolutely,", "I'm sorry, but",
    ],
    "advice": [
        "you can {verb} {thing_said} first, and then {verb} {thing_said}",
        "the easiest way to {verb} {thing_said} is to {verb} {thing_said} {when}",
        "{subject} is a {adjective} topic, and there is a lot to {verb}",
        "I would {verb} {thing_said} before you {verb} {thing_said}",
        "many people {verb} {thing_said} because it is {adjective} and {adjective}",
        "{person} was a {adjective} {noun} who changed the way we {verb} {thing_said}",
        "it depends on whether {thing_said} is {adjective} or {adjective}",
        "there are {number} things you should know about {subject}",
        "most of the {noun}s in {place} are {adjective}",
        "if you {verb} {thing_said} every day, it becomes {adjective}",
        "the {noun} that you mentioned is {adjective}, so it may take {number} {thing} to {verb} it",
    ],
    "closer": [
        "Would you like to know more?", "Does that help?", "Let me know if you have any other questions.",
        "I hope that helps.", "What else would you like to know?", "Shall I {verb} {thing_said} for you?",
        "Please tell me more.", "Is there anything else I can do for you?", "Good luck with {subject}!",
        "What do you think?", "You are welcome.", "Have a {adjective} day!",
    ],
    "chat": [
        "{opener} {advice}.", "{opener} {advice}.", "{opener} I can help you {verb} {thing_said} {when}.",
        "I am sorry, but I cannot {verb} {thing_said} {when}.", "Let me {verb} {thing_said} first.", "{closer}",
        "Hello {first}, how can I help you {when}?", "Hi {first}, nice to meet you.", "Here is {thing_said} for you.",
        "I like to talk about {subject}, {subject}, and {subject}.", "Thank you for {thing_said}, {first}.",
        "{subject} is about {thing_said}, and {subject} is about {thing_said}.",
        "First, {verb} {thing_said}. Second, {verb} {thing_said}.", "I'd be happy to {verb} {thing_said}.",
        "Step {number}: {verb} {thing_said}.", "As an assistant, I don't have a {noun}, but I can {verb} one.",
        "That's a {adjective} question about {subject}!", "I'm a {adjective} voice that runs on your computer.",
    ],
    "counted": [
        "There are {number} {thing} in {thing_said}.", "It costs {price}.", "{person} paid {price} for {thing_said}.",
        "The meeting is at {time}.", "The train to {place} leaves at {time} and arrives at {time}.",
        "It was {number} {thing} long and {number} {thing} wide.", "My birthday is on {date}.",
        "{person} was born on {date}.", "In {year}, {person} moved to {place}.", "The answer is {number}.",
        "{number} plus {number} is {number}.", "It happened in {year}, about {number} {thing} ago.",
        "Please call me {when} at {time}.", "Flight {number} to {place} has been delayed by {number} minutes.",
        "The temperature in {place} is {number} degrees.",
        "Between {year} and {year}, prices rose by {number} percent.",
        "Chapter {number} begins on page {number}.", "I have {number} {noun}s and {number} {noun}s.",
        "{number}, {number}, {number}, and {number}.", "The code is {digits}.", "My number is {digits}.",
        "About {number} people live in {place}.", "The {noun} weighs {decimal} kilograms.", "That makes {price}.",
        "It is {time} on {day}, {date}.", "You need {number} cups of flour and {number} eggs.",
        "Room {number}, please.",
        "The {ordinal} {noun} was {adjective}, but the {ordinal} one was {adjective}.",
    ],
    "reply": [
        "Yes.", "No.", "Okay.", "Sure.", "Maybe.", "Thanks.", "Hello.", "Hi.", "Goodbye.", "Bye.", "Please.", "Sorry.",
        "Really?", "Why?", "How?", "When?", "Where?", "Who?", "What?", "Right.", "Exactly.", "Great!", "Nice!", "Wow!",
        "Of course.", "Thank you.", "You're welcome.", "No problem.", "Not yet.", "Not today.", "I see.", "I know.",
        "I agree.", "Good morning.", "Good evening.", "Good night.", "Good idea!", "Well done!", "Me too.", "Why not?",
        "Thank you very much.", "I don't know.", "I'm not sure.", "That's right.", "That's great!", "Let's go.",
        "Stop.",
        "How are you?", "I am fine.", "See you soon.", "See you {when}.", "Excuse me.", "One moment.", "Just a moment.",
        "Wait a minute.", "Come in.", "Never mind.", "It depends.", "Not at all.", "All right.", "Yes, please.",
        "No, thanks.", "Hello, {first}.", "Hi, {first}!", "Thanks, {first}.", "Goodbye, {first}.", "Dear {first},",
        "{first}?", "{first} {last}.", "{place}.", "In {place}.", "{number}.", "{time}.", "{price}.", "{date}.",
        "{when}, I think.", "The {noun}.", "A {adjective} {noun}.", "{adjective}!", "{noun}?", "{subject}.", "{day}.",
        "Very {adjective}.", "So {adjective}!", "How {adjective}!", "Too {adjective}.", "{verb} it.", "{month}.",
    ],
}
# fmt: on
_WORDS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen""".split()  # noqa: SIM905 (twenty quoted words read worse)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905
_ORDINALS = "first second third fourth fifth sixth seventh eighth ninth tenth twelfth twentieth".split()  # noqa: SIM905


def spelled(n: int) -> str:
    """English words of 0 <= n < 1,000,000."""
    if n < 20:
        return _WORDS[n]
    if n < 100:
        return _TENS[n // 10 - 2] + (f"-{_WORDS[n % 10]}" if n % 10 else "")
    size, name = (100, "hundred") if n < 1000 else (1000, "thousand")
    rest = spelled(n % size) if n % size else ""
    return f"{spelled(n // size)} {name} {rest}".strip()


def _number(rng: random.Random) -> str:
    n = rng.randrange(10 ** rng.choice((1, 2, 2, 3, 4, 5)))
    return rng.choice((spelled(n), str(n), f"{n:,}"))


def _price(rng: random.Random) -> str:
    whole, cents = rng.randrange(10 ** rng.choice((1, 2, 3))), rng.randrange(100)
    return rng.choice((f"${whole}", f"${whole}.{cents:02}", f"{spelled(whole)} dollars", f"{spelled(cents)} cents"))


def _time(rng: random.Random) -> str:
    hour, minute = rng.randrange(1, 13), rng.choice((0, 5, 10, 15, 20, 30, 45, rng.randrange(60)))
    half = rng.choice(("am", "pm"))
    return rng.choice(
        (
            f"{hour}:{minute:02}",
            f"{hour}:{minute:02} {half}",
            f"{hour} {half}",
            f"{spelled(hour)} o'clock",
            f"half past {spelled(hour)}",
            f"a quarter to {spelled(hour)}",
        )
    )


def _date(rng: random.Random) -> str:
    month, day = rng.choice(GRAMMAR["month"]), rng.randrange(1, 32)
    return rng.choice((f"{month} {day}", f"{month} {day}, {_year(rng)}", f"the {_ordinal_digits(day)} of {month}"))


def _ordinal_digits(n: int) -> str:
    suffix = "th" if 10 < n < 14 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{suffix}"


def _ordinal(rng: random.Random) -> str:
    return rng.choice((*_ORDINALS, _ordinal_digits(rng.randrange(1, 100))))


def _year(rng: random.Random) -> str:
    return str(rng.choice((rng.randrange(1900, 2030), rng.randrange(1000, 2030))))


_DRAWN = {
    "number": _number,
    "price": _price,
    "time": _time,
    "date": _date,
    "year": _year,
    "ordinal": _ordinal,
    "digits": lambda rng: " ".join(rng.choice((_WORDS[:10], "0123456789"))[rng.randrange(10)] for _ in range(7)),
    "decimal": lambda rng: f"{rng.randrange(200)}.{rng.randrange(1, 100)}",
}


def fill(template: str, rng: random.Random) -> str:
    """Replace every `{slot}` until none is left; the result starts with a capital."""
    while "{" in template:
        template = re.sub(r"\{(\w+)\}", lambda m: _DRAWN[m[1]](rng) if m[1] in _DRAWN else rng.choice(GRAMMAR[m[1]]), template)
    # After an opener that ends its own sentence the next one needs a capital.
    return re.sub(r"(^|[.!?] )([a-z])", lambda m: m[1] + m[2].upper(), template)


def sentences(kind: str, count: int, rng: random.Random) -> list[str]:
    """Up to `count` distinct sentences of one kind (`plain`, `question`, `chat`, `counted`, `reply`)."""
    drawn = (fill(rng.choice(GRAMMAR[kind]), rng) for _ in range(2 * count))
    return list(dict.fromkeys(drawn))[:count]
