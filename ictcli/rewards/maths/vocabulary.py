"""List the words next to a value that matter: units of measurement, and words that change it."""


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
    | {prefix + "Ω": prefix + "ohm" for prefix in _PREFIXES}
)
"""Canonical names of case-sensitive unit symbols. K, M, B and T alone are not among them, as they
may mean thousand, million, billion or trillion."""

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
    "%": "percent pct", "percentage point": "percentage", "unit": "unit",
    "night": "night", "century": "century", "decade": "decade",
    "cup": "cup", "ton": "ton", "bushel": "bushel", "knot": "knot", "kg": "kilo",
    "parsec": "parsec", "lightyear": "lightyear", "revolution": "revolution",
    "fortnight": "fortnight", "millennium": "millennium millennia", "furlong": "furlong",
    "kelvin": "kelvin", "lumen": "lumen", "lux": "lux", "candela": "candela",
}  # fmt: skip
"""Words for each unit, in the singular; any case and the plural are accepted too."""
WORD_PREFIXES = {"deci": "d", "centi": "c", **{name: sign for sign, name in _PREFIXES.items()}}

PREFIXED = word_list(
    "metre meter gram gramme second litre liter newton joule watt volt ampere amp pascal hertz "
    "mole byte calorie electronvolt coulomb farad tesla ohm"
)
"""Words that may have a prefix, as in `kilometre`."""
PLAIN = frozenset(
    word_list(
        "cm mm km kg ft lb lbs oz hr hrs sec secs min mins yd mph kph mi in kWh kHz Hz MHz mL ml "
        "USD EUR"
    )
)
"""Symbols that are units outside `\\text{}` too; other symbols could be products of unknowns."""
LENGTHS = frozenset(word_list("m nm µm mm cm dm km Mm in ft yd mi unit"))
"""Canonical names of the units that may have powers."""

SCALES = {
    "hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12,
    "dozen": 12, "lakh": 10**5, "lac": 10**5, "crore": 10**7, "grand": 10**3,
    "百": 10**2, "千": 10**3, "万": 10**4, "萬": 10**4, "億": 10**8, "亿": 10**8,
}  # fmt: skip
POWERS = {"square": 2, "sq": 2, "squared": 2, "cubic": 3, "cu": 3, "cubed": 3}
CURRENCIES = {
    "¢": "cent", "£": "pound sterling", "€": "euro", "¥": "yen", "$": "dollar", "₹": "rupee",
}  # fmt: skip
_DIGITS = word_list("four six seven eight nine")
_TEENS = word_list(
    "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
)
_TENS = word_list("twenty thirty forty fifty sixty seventy eighty ninety")
_LARGE = word_list("hundred thousand million billion trillion dozen quadrillion quintillion")
NUMBERS = {
    *word_list("zero one two three five half halves quarter third fifth eighth ninth twelfth pair"),
    *word_list("couple score gross fold once twice thrice double doubled triple tripled quadruple"),
    *word_list("quadrupled several many infinity infinite"),
    *(*_DIGITS, *_TEENS, *_TENS, *_LARGE),
    *(word + "th" for word in (*_DIGITS, *_TEENS, *_LARGE, *(ten[:-1] + "ie" for ten in _TENS))),
}
NEGATIONS = {
    *word_list("no not non none nothing nobody never nor neither cannot without except excluding"),
    *word_list("wrong incorrect false impossible undefined invalid rejected extraneous maybe"),
    *word_list("perhaps possibly probably might may could would should guess"),
}
"""Words that deny the value beside them, or leave it uncertain."""
COMPARISONS = {
    *word_list(
        "than more less fewer greater larger smaller higher lower least most maximum minimum"
    ),
    *word_list("max or and over under above below beyond exceeding exceeds within between ish"),
    *word_list("almost nearly barely too so plus either if when whenever where unless until only"),
    *word_list("provided assuming is are was were be equal equals to from by"),
}
"""Words that compare a value with another, or say on which condition it holds."""
OPERATIONS = {
    *word_list("minus negative opposite inverse reciprocal square squared cube cubed power choose"),
    *word_list("log logarithm ln sin cos tan exp sqrt factorial mod modulo divided multiplied"),
    *word_list("binary octal decimal hexadecimal pi"),
}
AFTER = frozenset(word_list(
    "lakh lac crore myriad zillion sextillion googol quintuple quintupled mega giga tera milli "
    "micro nano centi deci hecto pico excluded excludes exclude exclusive excepted omitted "
    "discarded dismissed eliminated refuted denied disproved disproven retracted withdrawn "
    "disregarded erroneous mistaken untrue unlikely doubtful unsure uncertain hardly fake bogus "
    "nope nah aside negated inverted reversed backwards up upward upwards onward onwards down "
    "mil mill mille mila mln mio mrd tsd cien ciento cientos docena docenas mitad millon "
    "millones milliard milliards billon billones millier milliers centaine centaines douzaine "
    "douzaines moitie demi demie milione milioni miliardo miliardi dozzina dozzine meta mezzo "
    "mezza milhao milhoes bilhao bilhoes duzia duzias metade meio meia hundert tausend millionen "
    "milliarde milliarden billionen dutzend halb halbe halfte doppelt honderd duizend miljoen "
    "miljard dozijn helft hundra tusen tusind miljon miljoner millioner miljarder tysiac tysiace "
    "tysiecy milion miliony milionow miliard tucet milyon milyar ribu juta miliar lusin "
    "supposedly allegedly ausgeschlossen nicht kein keine keinen falsch pas faux fausse sauf "
    "incorrecto incorrecta falso falsa nunca excepto nao errado niet fout menos mas mehr weniger "
    "moins сто сотня сотни сотен тысяча тысячи тысяч тыс миллион миллиона миллионов млн миллиард "
    "миллиарда миллиардов млрд дюжина дюжины дюжин половина пара пары не нет неверно неправильно "
    "кроме χιλιαδες εκατομμυρια الف الاف مليون مليار אלף מיליון हजार लाख करोड"
))  # fmt: skip
"""Words (without accents) that scale or deny the value before them; elsewhere they may be names."""
WITHIN = word_list(
    "十 百 千 万 萬 億 亿 兆 半 倍 成 割 折 一 二 三 四 五 六 七 八 九 零 两 双 数 几 多 余 "
    "不 非 無 无 没 错 誤 误 除 负 負 以上 以下 以外 以内 以內 未満 超 至少 最 大于 小于 少于 "
    "백 천 만 억 반 배"
)
"""Parts of words, in scripts without spaces, that scale, deny or compare a value."""
LEADS = word_list("so thus hence therefore then")
LINKS = ("is equal to", "is", "are", "equals", "=")
HEDGES = word_list("about approximately exactly around roughly")
"""Words that may stand before a number and change nothing."""
NEGATIVES = ("negative", "minus")
SHORT_WORDS = frozenset(word_list(
    "leo ann and red pm dna blue fri wed aug her tue or man mar eva one odd two sep oct none "
    "win nov neither gas bob sum six ten mon jul rna joe both thu yes ben sea kim amy dan may "
    "sat apr cat new ice all jun tie his dog feb am sun old sam day sky tom max jan even no "
    "dec"
))  # fmt: skip
"""Words and names of two or three letters that occur as answers; any other short run of letters is
a product of symbols."""
