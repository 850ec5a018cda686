"""The closed lists of words that an answer may add to its value or leave out.

docs/verifier.md prints the lists. A word that is in none of them makes another answer.
"""


def word_list(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_PREFIXES = {
    "n": "nano", "µ": "micro", "m": "milli", "k": "kilo", "M": "mega", "G": "giga", "T": "tera",
}  # fmt: skip
_OTHERS = {
    "l": "L", "ml": "mL", "cl": "cL", "dl": "dL", "kl": "kL", "μm": "µm", "um": "µm",
    "μg": "µg", "ug": "µg", "μs": "µs", "us": "µs", "hr": "h", "hrs": "h", "sec": "s", "secs": "s",
    "mins": "min", "lbs": "lb", "yrs": "yr", "wks": "wk", "mos": "mo", "kmh": "km/h", "kph": "km/h",
    "kmph": "km/h", "kWh": "kWh", "mAh": "mAh", "cc": "cm^3", "sqft": "ft^2", "deg": "degree",
    "Ω": "ohm", "mph": "mi/h", "gm": "g", "Rs": "rupee", "Rs.": "rupee", "INR": "rupee",
    "USD": "dollar", "EUR": "euro", "GBP": "pound sterling", "JPY": "yen", "CNY": "yuan",
    "RMB": "yuan", "%": "%",
}  # fmt: skip
_ALONE = word_list(
    "in ft yd mi min h d wk mo yr lb oz gal qt pt tbsp tsp acre ha rad sr rpm fps psi atm bar mol "
    "cd Hz N J W V A C F Pa Wb H S lm lx m g s L eV cal t u AU ppm ppb dB bps"
)
_WITH_PREFIX = word_list("m g s L N J W V A C F Pa Hz mol eV cal B T")
SYMBOLS = (
    {symbol: symbol for symbol in _ALONE}
    | {prefix + unit: prefix + unit for unit in _WITH_PREFIX for prefix in _PREFIXES}
    | {prefix + unit: prefix + unit for prefix in "cd" for unit in "mgL"}
    | _OTHERS
)
"""Symbols of units to their canonical form; case counts. K, M, B and T alone are none: they may say
thousand, million, billion or trillion."""

SPELLED = {
    "m": "meter metre", "g": "gram gramme", "s": "second", "L": "liter litre", "N": "newton",
    "J": "joule", "W": "watt", "V": "volt", "A": "ampere amp", "C": "coulomb celsius",
    "F": "farad fahrenheit",
    "tesla": "tesla", "Pa": "pascal", "Hz": "hertz", "mol": "mole", "eV": "electronvolt",
    "cal": "calorie", "byte": "byte", "ohm": "ohm", "t": "tonne", "Wb": "weber",
    "in": "inch", "ft": "foot feet", "yd": "yard", "mi": "mile", "min": "minute", "h": "hour",
    "d": "day", "wk": "week", "mo": "month", "yr": "year", "lb": "pound", "oz": "ounce",
    "gal": "gallon", "qt": "quart", "pt": "pint", "tbsp": "tablespoon", "tsp": "teaspoon",
    "acre": "acre", "ha": "hectare", "rad": "radian", "degree": "degree", "bit": "bit",
    "atm": "atmosphere", "dollar": "dollar buck", "cent": "cent", "euro": "euro",
    "rupee": "rupee", "yen": "yen", "yuan": "yuan", "peso": "peso", "franc": "franc",
    "penny": "penny pennies pence", "nickel": "nickel", "dime": "dime",
    "pound sterling": "sterling",
    "%": "percent", "unit": "unit", "night": "night", "century": "century", "decade": "decade",
    "cup": "cup", "ton": "ton", "bushel": "bushel", "knot": "knot", "kg": "kilo",
    "parsec": "parsec", "lightyear": "lightyear", "revolution": "revolution",
    "kelvin": "kelvin", "lumen": "lumen", "lux": "lux", "candela": "candela",
}  # fmt: skip
"""Units to the words that name them; any case, singular or plural."""
WORD_PREFIXES = {"deci": "d", "centi": "c", **{name: sign for sign, name in _PREFIXES.items()}}

PREFIXED = word_list(
    "metre meter gram gramme second litre liter newton joule watt volt ampere amp pascal hertz "
    "mole byte calorie electronvolt coulomb farad tesla"
)
"""Words that take a prefix."""
PLAIN = frozenset(
    word_list(
        "cm mm km kg ft lb lbs oz hr hrs sec secs min mins yd mph kph mi in kWh kHz Hz MHz mL ml "
        "USD EUR"
    )
)
"""Symbols that are units in plain letters too; others could be products of unknowns."""
SHORT = frozenset(word_list("per of in a an men day cup ton pen dog cat egg boy pie car toy way"))
"""Words of up to three letters that stand in a unit in plain letters."""

LENGTHS = frozenset(word_list("m nm µm mm cm dm km Mm in ft yd mi unit"))
"""Units that have powers, in their canonical form."""

SCALES = {
    "hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12,
    "dozen": 12,
}  # fmt: skip
POWERS = {
    "square": "2",
    "sq": "2",
    "squared": "2",
    "cubic": "3",
    "cu": "3",
    "cubed": "3",
}
CURRENCIES = {
    "¢": "cent", "£": "pound sterling", "€": "euro", "¥": "yen", "$": "dollar", "₹": "rupee",
}  # fmt: skip
FILLERS = (
    *("in total", "in all", "total", "altogether", "each", "a piece", "apiece", "old", "tall"),
    *("long", "wide", "high", "deep", "away", "left", "remaining"),
)
"""Words that may end a unit."""

COUNTED = frozenset(word_list("""
    acorn act actor adult album alligator angle animal answer ant apartment apple apricot arm
    army arrangement arrow article aunt author baby bag bagel baker ball balloon banana band bar
    barrel baseball basket basketball bat batch battery bead beaker bean bear beat bed bee
    bicycle bike bird biscuit block blueberry board boat bolt bone book bookcase bottle bouquet
    bowl box boy bracelet branch bread brick bridge brother brownie bubble bucket bug building
    bulb burger bus bush business button cab cabin cabinet cake call camel camera camper can
    candidate candle candy car card carnation carrot cart carton case cat caterpillar cell chair
    chapter chef cherry chicken chicks child chip chocolate choice chore church cigarette circle
    citizen city class classmate classroom clerk clip clock cloud clover clown coach coat
    coconut coin color colour column combination comic committee computer condition constant
    container cookie copy corner costume couch country cousin cow coworker cracker crate crayon
    crew cricket cube cupcake curtain customer cut cyclist dancer daughter deer delegate
    delivery dentist desk diagonal diamond dictionary digit dish divisor doctor dog doll dolphin
    donkey donut door doughnut dragon drawer drawing dress drink driver drop duck edge egg
    electron element elephant email employee engine engineer entry envelope episode equation
    essay event exam exercise eye face factor family fan farm farmer feather fence figure file
    film finger fish flag flavor flight floor flower fly folder follower fork fox friend frog
    fruit function game garden gate gear gem ghost giant gift giraffe girl glass glove goal goat
    goldfish goose grade grandchild grandson grape graph guest guitar guppy hamburger hand
    handshake hat hawk head helmet hen hero hole home honeybee horse hospital hotdog hotel house
    human insect instrument integer interval invitation item jacket jar jelly jellybean jewel
    job joke judge juice jump kangaroo key kid kitten kiwi knife ladder lake lamb lamp lap
    laptop lawn layer leaf league leg lego lemon lesson letter level library light line lion
    list lizard loaf lobster locker log lollipop lot machine magazine magnet man map marathon
    marble mark marker marshmallow mask match matchstick meal meatball medal meeting member
    message milestone minnow mirror mistake model monkey monster mouse move movie muffin mug
    multiple mushroom nail napkin necklace needle neighbor nest newspaper nickel node noodle
    note notebook novel number nurse nut object octopus officer onion operation orange orbit
    order outcome outfit owl owner package packet page painter painting pancake panel parent
    park part participant partition passenger pastry patient pattern peach peanut pear pearl
    pebble pen pencil penguin people pepper permutation person pet petal phone photo photograph
    piano pick picture pie piece pig pigeon piglet pillow pilot pin pineapple pipe pizza place
    plan plane planet plank plant plate player plum pocket poem point pole police polygon pond
    pony pool popsicle possibility post postcard poster pot potato present president prime prize
    problem product project pumpkin puppy puzzle quarter question quiz rabbit race racer radish
    raffle rat reader receipt rectangle region report ribbon ring river road robot rock role
    roll roof room roommate root rope rose route row ruler runner sailor salad sandwich saucer
    sausage scarf school scooter seal seashell seat section seed senior sentence sequence
    session shape share shark sheep sheet shelf shell ship shirt shoe shop shot shovel sibling
    side sign singer sister skater slice snack snail snake soccer sock soda soldier solution son
    song spoon spot squirrel staff stair stamp star state station statue steak stem step stick
    sticker stone stool stop store story strawberry street string student subject subset suit
    suitcase sunflower supporter sweater sweet swimmer symbol table tadpole tail tank task taxi
    teacher team teammate tent term test text ticket tie tiger tile time tin tip tire toad
    toilet tomato tool tooth toothbrush toothpick top towel town toy track trail train tray
    treat tree triangle trip trophy truck trumpet tube tulip turkey turn turtle tv uncle
    vacation value van variable vase vegetable vehicle vertex video violin visit visitor
    volleyball volunteer vote voter waiter walk wall washer watch watermelon wave way whale
    wheel whisker widget window wing winner wire wolf woman word worker worm wrapper wrench
    yogurt zebra
""")) - {"quarter", "nickel"}  # fmt: skip
"""Nouns for things counted, singular."""
MASS = frozenset(word_list(
    "flour sugar water milk rice butter cheese chocolate coffee tea juice lemonade soda sand "
    "soil gold silver paint fabric cloth wood grass hay corn wheat popcorn ice cream homework "
    "money time work sleep exercise pizza cake bread candy fish meat beef chicken pork gas fuel "
    "salt"
))  # fmt: skip
"""Nouns that may follow `of` or stand before a counted noun."""
IRREGULAR = {
    "people": "person", "children": "child", "men": "man", "women": "woman", "mice": "mouse",
    "geese": "goose", "teeth": "tooth", "leaves": "leaf", "wolves": "wolf", "loaves": "loaf",
    "knives": "knife", "shelves": "shelf", "scarves": "scarf", "vertices": "vertex",
    "grandchildren": "grandchild", "quizzes": "quiz", "lives": "life",
}  # fmt: skip
ADJECTIVES = frozenset(word_list("different distinct possible whole"))
"""Words that may stand before a counted noun, and say nothing."""
COLOURS = frozenset(word_list("red blue green yellow white black purple pink"))
"""Words that may stand before a counted noun, and make it another."""

NAMES = frozenset(word_list("""
    age amount angle answer area average base breadth capacity center centre centroid charge
    circumference coefficient constant coordinates cost count current degree density depth
    determinant diameter difference discount distance domain energy expression final foci focus
    force fraction frequency gradient height hypotenuse income integer intercept interest
    interval length limit mass matrix maximum mean measure median midpoint minimum mode momentum
    number numbers output pair payment percent percentage perimeter period point points power
    pressure price probability product profit quotient radius range rate ratio remainder result
    revenue root roots salary score side slope solution solutions speed sum surface tax
    temperature time tip total triple value values variance vector velocity vertex voltage
    volume weight width work year
"""))  # fmt: skip
"""Nouns for a value, as in `the area is 5`."""
SHAPES = frozenset(
    word_list(
        "triangle circle rectangle cube sphere cone cylinder polygon pyramid prism sector figure "
        "shape region trapezoid parallelogram rhombus hexagon pentagon octagon ellipse parabola "
        "line segment equation polynomial function sequence series graph set rope fence wall"
    )
)
"""Nouns that may stand beside a name, as in `the area of the triangle`."""
NAME_FILLERS = frozenset(word_list("the a an of our my its final total required correct ordered"))
LEADS = word_list("so thus hence therefore then")
LINKS = ("is equal to", "is", "are", "equals", "=")
HEDGES = word_list("about approximately exactly around roughly")
"""Words that may stand before a number and change nothing."""
NEGATIVES = ("negative", "minus")
