"""Dialects: CRF++ exactly, Wapiti as its source has it, and conversion where the target can say the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlstruct.errors import MtlError, TemplateError
from mtlstruct.templates import DIALECTS, TemplateSet, Term, preset
from mtlstruct.templates.convert import converted
from mtlstruct.templates.terms import boundary, expand


def wapiti(text):
    return TemplateSet.parse(text, "my.tpl", dialect="wapiti")


def test_crfpp_reads_numbers_as_it_does():
    for macro, term in (("%x[-8,0]", Term(-8, 0)), ("%x[,]", Term(0, 0)), ("%x[-,07]", Term(0, 7))):
        (template,) = TemplateSet.parse(f"U1:{macro}", dialect="crfpp")
        assert template.terms == (term,)
        assert TemplateSet.parse(template.text)[0] == template  # the text is ours


@pytest.mark.parametrize(
    ("dialect", "line", "problem"),
    [
        ("crfpp", "U:%x[9,0]", "column 3: row offset beyond ±8, got %x[9,0]"),
        ("crfpp", "U:%lower[0,0]", "column 3: unknown macro '%l': expected %x[row,column]"),
        ("crfpp", "U:%x[@1,0]", "column 3: expected %x[row,column]"),
        ("crfpp", "U:%x[+1,0]", "column 3: expected %x[row,column]"),
        ("wapiti", "x:%x[0,0]", "column 1: expected u, b or * as the first character of a template, got 'x'"),
        ("wapiti", " u:%x[0,0]", "column 1: expected u, b or *"),
        ("wapiti", "u:%y[0,0]", "column 3: unknown macro '%y': expected %x, %t or %m"),
        ("wapiti", "u:%x[0 ,0]", "column 3: expected %x[row,column], got '%x[0 ,0]'"),
        ("wapiti", 'u:%x[0,0,"a"]', "column 3: expected %x[row,column]"),
        ("wapiti", "u:%t[0,0]", 'column 3: expected %t[row,column,"regex"]'),
        ("wapiti", 'u:%t[0,0,"a#b"]', 'column 3: expected %t[row,column,"regex"]'),
        ("wapiti", 'u:%t[0,0,"a**"]', "column 3: expected one repetition a character"),
        ("wapiti", "u:%x[010,0]", "column 3: expected a number without a leading 0"),
        ("wapiti", "u:%x[@0,0]", "column 3: expected a row from @1"),
    ],
)
def test_what_a_dialect_lacks_is_rejected(dialect, line, problem):
    with pytest.raises(TemplateError) as caught:
        TemplateSet.parse(f"B\n{line}", "my.tpl", dialect=dialect)
    assert str(caught.value).startswith(f"my.tpl, line 2, {problem}")


def test_compat_drops_what_crfpp_drops_and_says_so():
    source = "U1:%x[0,0]\n  \n X\nu2:%x[1,0]\n# c\nB"
    templates = TemplateSet.parse(source, "my.tpl", dialect="crfpp")
    assert templates.text() == "U1:%x[0,0]\nB\n"
    assert templates.notes == (
        "my.tpl, line 3: CRF++ drops this line, and so do we in ' X'",
        "my.tpl, line 4: CRF++ drops this line, and so do we in 'u2:%x[1,0]'",
    )


def test_unknown_dialect():
    with pytest.raises(MtlError, match="unknown dialect 'yamcha': expected one of mtlstruct, crfpp, wapiti"):
        TemplateSet.parse("B", dialect="yamcha")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("u:1=%x[0,0]", "U:1=%x[0,0]"),
        ("Ub:%X[ -1,  2]", "Ub:%lower[-1,2]"),
        ("b%x[+1,+0]", "B%x[1,0]"),
        ('u%T[0,0,"a b"]', 'U%t[0,0,"a b"]'),
        ('u%m[0,1,"\\"%"]x', 'U%m[0,1,"\\"%"]x'),
        ('u%M[@-2,1,"é*"]', 'U%M[@-2,1,"é*"]'),
        ("u%x[@ 1,0] \t # comment", "U%x[@1,0]"),
        ("b", "B"),
    ],
)
def test_wapiti_lines(line, text):
    assert wapiti(line).text() == text + "\n"


def test_a_star_makes_two_groups():
    templates = wapiti("# all\n*:%x[0,0]\n   \n*\nu:a#b")
    assert templates.text() == "U:%x[0,0]\nB:%x[0,0]\nU\nB\nU:a\n"
    assert [t.line for t in templates] == [2, 2, 4, 4, 5]
    assert TemplateSet.parse(templates.text()) == templates


SENTENCE = ["Le", "ÉTÉ", "1998"]


def at(position, row, absolute):
    """Wapiti's rule for a place, with our marks."""
    place = (row - 1 if row > 0 else row + len(SENTENCE)) if absolute else position + row
    if place < 0:
        return boundary(place)
    return boundary(place - len(SENTENCE) + 1) if place >= len(SENTENCE) else SENTENCE[place]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("u%x[-1,0]/%X[0,0]", ["U_B-1/le", "ULe/été", "UÉTÉ/1998"]),
        ('u%t[0,0,"\\u\\u*$"]', ["Ufalse", "Utrue", "Ufalse"]),
        ('u%m[0,0,"^\\a\\a?"]', ["ULe", "UÉT", "U"]),
        ('u%M[0,0,"\\u"]', ["Ul", "Ué", "U"]),
        ("u%x[@1,0]%x[@-1,0]%x[@5,0]", ["ULe1998_B+2"] * 3),
        ("u%x[@-4,0]", ["U_B-1"] * 3),
    ],
)
def test_wapiti_values(line, expected):
    (template,) = wapiti(line)
    got = [expand(template, lambda r, _, a=False, t=t: at(t, r, a)) for t in range(len(SENTENCE))]
    assert got == expected


def test_conversion_keeps_comments_blank_lines_and_order():
    source = "# words\nu1:%x[0,0]  # here\n\n*2:%X[-1,0]\n"
    ours = "# words\n# here\nU1:%x[0,0]\n\nU2:%lower[-1,0]\nB2:%lower[-1,0]\n"
    assert converted(wapiti(source), "mtlstruct") == ours
    assert converted(wapiti(source), "wapiti") == source  # a file that is in the dialect already stays
    dropped = TemplateSet.parse("x\nB", dialect="crfpp")
    assert converted(dropped, "wapiti") == "# x\nb\n"


@pytest.mark.parametrize("name", ["cws-tp1", "cws-tp2", "ner-134"])
def test_plain_sets_go_through_every_dialect(name):
    templates = preset(name)
    for to in DIALECTS:
        assert TemplateSet.parse(converted(templates, to), dialect=to) == templates


@pytest.mark.parametrize(
    ("line", "to", "problem"),
    [
        ("U:%lower[0,0]", "crfpp", "CRF++ cannot express %lower[0,0]"),
        ("U:%x[@1,0]", "crfpp", "CRF++ cannot express %x[@1,0]"),
        ("U:%x[9,0]", "crfpp", "CRF++ cannot express a row beyond ±8, got %x[9,0]"),
        ("U:%shape[0,0]", "wapiti", "Wapiti cannot express %shape[0,0]"),
        ('U:%match[0,0,"a"]', "wapiti", 'Wapiti cannot express %match[0,0,"a"]'),
        ('U:%m[0,0,"#"]', "wapiti", 'Wapiti cannot express %m[0,0,"#"]'),
        ("U#1:%x[0,0]", "wapiti", "Wapiti cannot express a '#' in a template"),
    ],
)
def test_what_cannot_be_expressed_names_the_line(line, to, problem):
    with pytest.raises(TemplateError) as caught:
        converted(TemplateSet.parse(f"B\n{line}", "my.tpl"), to)
    assert str(caught.value).startswith(f"my.tpl, line 2: {problem}")


LITERAL = st.characters(exclude_characters="%\n\r\0#", exclude_categories=["Cs", "Z", "Cc"])
pieces = st.text(LITERAL, max_size=4)
regexes = st.sampled_from([("a*",), (r"\u\d?",), (r"^\"é$",)])
expressible = st.one_of(
    st.builds(Term, st.integers(-8, 8), st.integers(0, 9), st.sampled_from(["", "lower"])),
    st.builds(Term, st.integers(1, 9), st.just(0), st.sampled_from("tmM"), regexes, st.booleans()),
)


@given(st.sampled_from("UB"), st.lists(st.tuples(expressible, pieces), max_size=4), pieces)
def test_wapiti_round_trip(kind, body, head):
    line = kind + head + "".join(term.text() + piece for term, piece in body)
    templates = TemplateSet.parse(line)
    assert wapiti(converted(templates, "wapiti")) == templates


@given(st.text('ub*UB%xtm[]@,"01-+ #\\', max_size=20))
def test_any_text_is_read_or_refused_in_every_dialect(text):
    for dialect in DIALECTS:
        try:
            templates = TemplateSet.parse(text, dialect=dialect)
        except TemplateError:
            continue
        assert TemplateSet.parse(templates.text()) == templates
