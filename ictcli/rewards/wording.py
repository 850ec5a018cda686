"""The lists of words and the patterns by which `decisions` reads sentences.

A sentence is in small letters; a capital in it is the letter of an option. In a list `_` is a space
and `*` any ending. In a pattern `<name>` stands for another one, or for a word of a list.
docs/verifier.md prints the lists.
"""

_LISTS = {
    "word": """
        accordingly accurate agrees am among ans answer answers appropriate are be believe best
        better by calculation calculations can_only certain certainly choice choices choose choosing
        chosen clear clearly closest conclude conclusion conditions confident confirms consequently
        consistent correct corrected corresponding corresponds criteria data deduce definitely
        describes description ergo explains fairly final finally find fit fits fitting for get given
        gives go going has_to have hence here i ideal implies in_fact indeed indicates is it
        it_follows know leaves leaving left let_me let_us letter likely logical makes making match
        matches matching means most must my nearest now number obviously of ok okay one only opt
        option options our overall pick plausible point points probably problem proper question
        quite reasonable remaining remains response result revised right satisfies say see select
        selected selection sense should shows simply so solution statement suitable sure surely
        tells that the then therefore these think this thus to turns_out_to ultimately undoubtedly
        updated us value verdict very we we_can well which will with works would yes → ∴""",
    "deciding": """
        accurate agrees ans answer appropriate best better choice choose choosing chosen closest
        conclude conclusion consequently consistent correct corresponding corresponds ergo finally
        fits gives go going hence leaves leaving left_with match matches matching opt option pick
        point_to points_to remains response result right satisfies say select selected selection so
        solution suitable therefore think thus verdict works → ∴""",
    "lead": """
        after although among analyzing applying as based_on because between by comparing considering
        despite due_to eliminating evaluating even_though following for_these_reasons
        for_this_reason from given in_this* knowing looking_at of out_of since though under_the
        under_these under_this unlike upon using when while with without""",
    "turn": """
        actually but correction hmm hold_on however i_mean i_meant instead no_wait
        on_closer_inspection on_reflection on_second_thought* oops rather rechecking sorry wait
        yet""",
    "wrong": """
        check_again flaw* impossible incorrect* mistak* nonsense opposite recheck* reconsider*
        untrue wrong*""",
    "negation": """
        absurd bad contradict* discard* dismiss* eliminat* except exclud* fail* false hardly invalid
        irrelevant lack lacks neither never no nobody none nor not nothing reject* rule_out
        ruled_out unrelated violat* without""",
    "doubt": """
        almost also_correct also_right also_true also_valid alternatively an_error an_example as_if
        bait barely both but_actually but_i but_it but_that but_this by_no_means careless* coin
        common_error contradict* contrary correction debatable decoy disagree disregard distractor*
        doubt* either equally far_from_it fool* guess* hm hmm hunch inconsistent instead jok*
        kidding lie lied lies likewise lying maybe my_mind naive* nearly never_mind nope not_quite
        not_really on_reflection on_second_thought* on_the_other_hand oops partly perhaps
        placeholder possibly psych random* retract* said_no sarcas* scratch sorry start_again
        start_over superficial take_it template the_example trap* trick trust uncertain
        unfortunately unsure wait withdr*""",
    "supposition": """
        according_to_a according_to_an according_to_her according_to_him according_to_my
        according_to_some according_to_the_book according_to_the_key argu* assum* believes claim*
        example* format hypothe* imagin* pretend said say says suppos* think thinks told unless
        whether write writes wrote ¤""",
    "approval": """
        acceptable also answer answers anything best but choose correct either equally except far
        fine fit fits good hardly however never nothing nowhere off plausible possible right though
        true valid without work works""",
    "about": """
        above all_the_same answer answers are_correct are_right are_true are_valid book_says choice
        choices choose chose edition i idea is_also is_correct is_fine is_off is_right is_true
        is_valid last_one letter letters line made_up my next_one no_solution not_be_correct
        not_be_right not_be_so not_be_true option options other_one others otherwise pick previous
        prompt quote* select sentence the_key they_say third_one told truth""",
    "unread": """
        amended any assuming but cancel changing check checking could delete do double-checking erm
        except forget hang i ignore let_me let_us might nevertheless none nonetheless nor oh one
        only or please probably rather redo revised said scrap still strike switching unless what
        you""",
    "doing": """
        act* allow* balance become* cause* come* contain* convert* correspond* decrease* describe*
        direct* equal* explain* follow* give* have include* increase* involve* lead* make* match*
        mean* need* occur* produce* provide* reduce* refer* represent* require* result* satisf*
        show* stand* state* take* use*""",
    "explaining": """
        a about an based because called clear consistent due_to equal found given_by how important
        known located made produced responsible supported the_law the_length the_number
        the_principle the_process the_product the_ratio the_result the_sum the_value used why
        worth""",
}
LISTS = {name: words.split() for name, words in _LISTS.items()}

PATTERNS = {
    # Sentences.
    "capitals": r"((?P<kind>vitamin|hepatitis|point|figure|group|type|\d) "
    r")?\b(?P<word>[A-Z]+[A-Za-z]*)",
    "no option": r"(?<=[\w'\\.^<>=+*/-][A-J])|(?=[\w'^_(\\]| ?[=+*^<>≈]|[/.-]\w)",
    "article": "(?= ?[a-z]| [A-Z]{2})(?! (is|has|or|and|because|since|as|fits|works|remains"
    "|does) )",
    "stop": r"(?<=[.!?])[)\"\]]*( (?![a-z])|$)|(?<=;) |(?<=\.\.\.) |,? and (?=the (correct "
    "|best )?(answer|option|choice) )|(?<=,) (?=(but|however|yet|no(?=,| wait)|wait|actually) "
    r"[^.]*\b[A-J]\b)| (?=but (the|it|option) [^.]*\b[A-J]\b)",
    "head of a line": r"(^|: (?=[(\[]?A[)\].]))(?:[Oo]ption |[Cc]hoice "
    r")?[(\[]?([A-J])([)\].:]+(?= |$)|$)",
    "clauses": "[,;:] | (?:so|thus|hence|therefore) ",
    "claims": "[,;:]|[.]? (?:because|since|as(?! well)|due to|given|which|where|so) ",
    # The clause that decides: words of the list around a letter.
    "head": "(?!(is|are|so is|so are|must|should|would|will|be|one|to|for|of|with|say|let us "
    r"say)\b)(<word>[ ,:=-]{1,3}|(closest|nearest|corresponds|equal) to [^,A-J]{1,30} (?=is ))*",
    "letter": r"""(?P<letter>[(\["{]{0,2} ?[A-J](?![\w'^_(-]) ?[)\]"}]{0,2}(?![\w'^_(\[]))""",
    "clause": "(?P<head><head>)<letter>",
    "verdict": "(?P<verdict>(,? (therefore|thus|then|hence),?)?( (is|must|should|would|will"
    "|has to|remains|fits|works|matches|satisfies|to (this|the)|for this|the|as (the|my"
    "|our))(?![a-z])( <word>)*))",
    "inserted": "(?P<text>.{1,200}?)<verdict>",
    "called": "((the )?((option|choice|letter|statement):? ?)+)?$",
    "astray": r"\b(of|(?<!corresponds )(?<!corresponding )(?<!agrees )(?<!consistent )(?<!go "
    ")(?<!going )(?<!opt )(?<!left )(?<!us )(?<!point )(?<!points )(to|for|with|among))( the| "
    "correct| answer)* ?$",
    "this is": r"\b(it|this|that|which) (is|must be|should be|would be|has to be)[a-z ]*$",
    "denied": r"<wrong>|<negation>|<doubt>|\b(but|complement)\b|([¬~!]|\\[a-z]+) *$",
    # What stands before it: openers, or a reason and what joins it to the decision.
    "opener": "((?P<turn><turn>|no(?=[,.:]))|(?P<so>as a result|as such|all things considered"
    "|in (conclusion|summary|short|the end|this case|other words)|(to )?(conclude|summarize|sum "
    r"up)|by (process of )?elimination)|step \d+|that is|and|[(\[](?=answer))([,:.] ?| |$"
    r"|(?<=[(\[]))",
    "joint": r"[,;:]? (and )?(?P<so>so|thus|hence|therefore|consequently|→|∴|i\.e\.|meaning"
    r"|that is|which means)( that)?,? | (?P<bracket>\((?=(option|choice) [A-J]\)))|(?P<subject> "
    "(?=(matches|leaves|corresponds to|agrees with|is consistent with|points? to) ))|,? "
    "(?=(making|leaving|corresponding|matching|which (is|corresponds|matches|makes|leaves)) )",
    "leading joint": "<joint>|, ",
    "leading": "((so|thus|hence|therefore|and),? )?(<lead>|according to (the|this|our"
    "|[a-z]+'s) ([a-z]+ ){0,3}(table|graph|figure|data|laws?|principle|theorem|rules?|equations?"
    "|formula|definition|calculations?|text|passage|analysis|theory|diagram),)",
    "supposed": r"<supposition>|\bif\b(?! (we|you|i) )|(part|question) ([a-z]|\d+)\b",
    "final": "(final|revised|corrected|updated) (answer|choice|option)",
    "fiction": "(let us )?(suppose|imagine|assume|pretend)|(here is )?(an )?example[:.]"
    r"|.*\b(template|placeholder|hypothetical[a-z]*|sarcas[a-z]+)\b",
    "turned": r"(<turn>|no)[,:. ]|.*(<wrong>|\bfails?\b)",
    # What stands behind it: the text of the choice, a reason, other options refused.
    "cut": "[,;:(-] ?| (?=(because|since|as|due to|so|meaning|given that|which|where|with"
    "|rather|instead|and not|not|for) )",
    "reason": "(and )?(because|since|as(?! (far|long|an?|my|our) )|due to|given that"
    "|considering|thanks to|so(?! (long|far))|meaning|(?P<which>which|where|with)) ",
    "options": "((the )?((option|choice|answer|statement)s? "
    r")?[(\[]?[A-J](?![\w'^_(-])[)\].:]*(,? (and|or|nor|&) |, ?|/| |$))+",
    "not others": r"(not|rather than|instead of|and not) <options>\)?",
    "others": "(the |all (of )?(the )?|(?P<none>none of the |no ))?(other|remaining)s?( (option"
    "|choice|answer|one|statement)s?)*",
    "refused": "((and|while|whereas|but|similarly|both) )*(<others>|<options>)(?P<rest>.*)",
    "not right": r"(\bnot( (be|the|a|an|correct|right|best|valid|true|possible|answers?|options?"
    r"|choices?|fit|work|match|satisfy|apply))+)\b|too [a-z]+ or too [a-z]+",
    "no": r"<wrong>|<negation>|\btoo(?= [a-z])",
    "doubtful": "<wrong>|<doubt>",
    "more": "[A-J¤?]|^[a-z]+ly$|^[=<>+*/^≈≠]|^(and|or|but|with|then|that|this|it|in|if|to"
    r"|because|among|et|etc|since|as|which|where|due)\b|\b(is|are|was|were|or|but|would|could|can"
    r"|will|did|does|do|has|have|had)\b",
    # A sentence after a decision.
    "closing": "(would|do) you (like|want|need|have) .*|any (further |other |more )?(question"
    "|doubt|feedback)s?.*|(i )?hope (this|that|it)( [a-z]+){1,4}|if you (have|need|want|would) .*"
    "|(please )?let me know.*|feel free .*|thank(s| you).*|good luck|i am (sure|confident"
    "|certain).*|i (used|applied|computed|calculated|checked|verified) .*|done|question|(the "
    ")?([a-z]+ )?(explanation|reason(ing)?|justification|analysis|notes?|steps?|details?|solution"
    "|calculations?|working|summary|rationale|given|proof)|here is why|let us (verify|check)"
    "|check|verification|why the (other|rest).*|(the )?(other|incorrect|wrong|remaining) (options"
    "|choices|answers)",
    "pointing": "((and|so|then|thus|therefore|hence|now|actually|well|though),? )*(this|that|it"
    "|these|those|they|which|such)(?![a-z])",
    "explains": "( [a-z]+)? (is|are) <explaining>| is [a-z]+'s | are the |(?P<same> is "
    "(therefore )?the (correct|right|best|final) (answer|option|choice)$)| (do|does) not (depend"
    "|need|require|affect|change|involve|include|matter|use|contain|produce|have) |( [a-z]+)? "
    "<doing>",
    "limits": r"\b(only|though|if|unless|when)\b",
    "starts": "<unread>|(no|not)(,| (wait|it|that|this|so|sure|correct|right|true"
    r"|necessarily)\b|$)|if(?![^,]*,)|(however|yet),? (this|that|it)(?! is (worth|important))",
}

LAYOUT = (
    (r"(?s)<!--.*?(?:-->|$)|<del>.*?</del>|~~[^~\n]*~~|(?m:^[ \t]*>[^\n]*$)", " "),
    (r"[\u201c\u201d]", '"'),
    (r"\u2019", "'"),
    (r"(?m)^[ \t]*\*(?= )", "-"),
    (r"(?i)\b(it|this|that|which|here|answer)'s\b", r"\1 is"),
    (r"(?i)'(?:ll|d)\b", " would"),
    (r"(?i)'m\b", " am"),
    (r"(?i)'re\b", " are"),
    (r"\b([Ll])et's\b", r"\1et us"),
    (r"(?i)\b(ca|wo)(?:n't|nnot)\b|n't\b", r"\1 not"),
    (r"(?i)<answer>", "\n\nAnswer: "),
    (r"\$(?= ?(?:The|So|Therefore|Thus|Hence)\b)|</?(?:answer|think|p|b|i|strong|em|br)>", "\n"),
    (r"\\(?:begin|end)\{\w+\*?\}|\$\$|\\[\[\]]", "\n"),
    (r"\\(?:text(?:bf|rm|it|sf)?|math(?:bf|rm|sf)|bf)(?![a-z]) ?\{([^{}]*)\}", r"\1"),
    (r"\\[(),;:! ]|[*`$]|(?m:^#+)|(?<![A-Za-z\d])_+|_+(?![A-Za-z\d])|\u00a0", " "),
    (r"\\(?:[lL]ong)?[rR]ightarrow|[⇒➔]|=>", "→"),
    (r"\\therefore", "∴"),
    (r"[\u2013\u2014]|--+", " - "),
    (r"(?m)^[ \t]*(?:[-•+][ \t]+|\d+[.)][ \t]+)+(?!\(?[A-J]\W*$)", ""),
    (r"\bAns\.|\{\s*\"(?:final_)?(?:answer|choice)\"\s*:", "Answer:"),
    (r"'([A-J])'", r'"\1"'),
    (r'"( ?\(?[A-J]\b[^"\n]*|[^\s"]+(?: [^\s"]+)?)"', "\u201c\\1\u201c"),
    (r'"[^"\n]*?([.!?]?)"', r"¤\1"),
    (r"\u201c", '"'),
    (r"[^\S\n]+", " "),
    (r" ?\n ?", "\n"),
    (r"(?<=:)\n+|(?<=\bis)\n+|(?<=[a-z,])\n(?=[a-z])", " "),
    (r"(?im)^((?:final |correct )*(?:answer|solution))\n+(?=\(?[A-J]\b)", r"\1: "),
)
"""What is rewritten before a text is read. A quotation becomes ¤."""
