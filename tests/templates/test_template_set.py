"""The template language: what is read, what is rejected and how, and that text and templates are inverse."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtlstruct.errors import MtlError, TemplateError
from mtlstruct.templates.convert import converted
from mtlstruct.templates.functions import FUNCTIONS
from mtlstruct.templates.template_set import TemplateSet
from mtlstruct.templates.terms import Template, Term, boundary, expand, written

SENTENCE = [("Das", "ART"), ("Haus", "NN"), ("brennt", "VVFIN")]

literals = st.text(st.characters(exclude_characters="%\n\r\0", exclude_categories=["Cs"]), max_size=6)
macros = st.builds(Term, st.integers(-255, 255), st.integers(0, 999_999))


@st.composite
def drawn_lines(draw):
    """A template line, and the pieces and terms it was put together from."""
    terms = draw(st.lists(macros, max_size=4))
    first, *rest = draw(st.lists(literals, min_size=len(terms) + 1, max_size=len(terms) + 1))
    pieces = (draw(st.sampled_from("UB")) + first, *rest)
    text = pieces[0] + "".join(
        f"%x[{term.row},{term.column}]{piece}" for term, piece in zip(terms, rest, strict=True)
    )
    return text, pieces, tuple(terms)


def one(text):
    (template,) = TemplateSet.parse(text)
    return template


def cell(position, row, column):
    """A cell of SENTENCE seen from `position`."""
    at = position + row
    if at < 0:
        return boundary(at)
    return boundary(at - len(SENTENCE) + 1) if at >= len(SENTENCE) else SENTENCE[at][column]


def test_a_template_in_parts():
    text, terms = "U01:%x[-1,0]/%x[0,1].", (Term(-1, 0), Term(0, 1))
    assert one(text) == Template(text, "U01", "U", ("U01:", "/", "."), terms, line=1)
    assert one("B\n") == Template("B", "B", "B", ("B",), (), 1)


def test_names_and_rows():
    texts = ["U01:%x[0,0]", "U01%x[0,0]:", "U%x[0,0]", "U:%x[0,0]", "U02:a:%x[0,0]", "Ubias", "B01:bias"]
    assert [one(text).name for text in texts] == ["U01", "U01", "U", "U", "U02", "Ubias", "B01"]
    macros = ["%x[-0,0]", "%x[007,0]", "%x[-255,0]", "%x[255,0]"]
    assert [one("U" + macro).terms for macro in macros] == [(Term(row, 0),) for row in (0, 7, -255, 255)]


def test_skipped_lines_and_line_numbers():
    source = "\ufeff# words\r\n\r\nU00:%x[0,0] # text\r\n \t\nU00:%x[0,0] \nB"
    templates = TemplateSet.parse(source)
    assert [(t.text, t.line) for t in templates] == [("U00:%x[0,0] # text", 3), ("U00:%x[0,0] ", 5), ("B", 6)]
    assert templates.text() == "U00:%x[0,0] # text\nU00:%x[0,0] \nB\n"
    assert templates.source == source
    assert templates.lines == ("# words", "", "U00:%x[0,0] # text", " \t", "U00:%x[0,0] ", "B")


def test_only_line_feeds_end_lines():
    assert one("Ua\u2028b\x85c\x0b%x[0,0]").pieces == ("Ua\u2028b\x85c\x0b", "")


@given(st.lists(drawn_lines(), min_size=1, max_size=8), st.sampled_from(["\n", "\r\n", "\n\n", "\n# %y\n"]))
def test_round_trip(lines, end):
    texts = [text for text, _, _ in lines]
    templates = TemplateSet.parse(end.join(texts))
    assert [(t.text, t.pieces, t.terms) for t in templates] == lines
    assert TemplateSet.parse(templates.text()) == templates
    assert [templates.lines[t.line - 1] for t in templates] == texts


@given(drawn_lines())
def test_expansion_replaces_macros_in_the_line(line):
    naive = re.sub(r"%x\[([-0-9]+),([0-9]+)\]", lambda m: f"<{int(m[1])};{int(m[2])}>", line[0])
    assert expand(one(line[0]), lambda row, column: f"<{row};{column}>") == naive


def test_expansion_at_the_edges():
    template = one("U5:%x[-2,0]/%x[-1,0]/%x[0,1]/%x[1,0]")
    got = [expand(template, lambda row, column, t=t: cell(t, row, column)) for t in range(3)]
    assert got == ["U5:_B-2/_B-1/ART/Haus", "U5:_B-1/Das/NN/brennt", "U5:Das/Haus/VVFIN/_B+1"]
    with pytest.raises(ValueError, match="other than 0"):
        boundary(0)


def test_a_set_is_a_sequence_and_selections_keep_the_order_given_and_lines():
    templates = TemplateSet.parse("U0:%x[-2,3]\n# c\nU1:%x[1,1]\nB", path="my.tpl")
    assert (len(templates), templates[1].name, templates[-1]) == (3, "U1", list(templates)[2])
    assert templates[1:] == templates.select([1, 2])
    chosen = templates.select([2, 0])
    assert (chosen.text(), [t.line for t in chosen]) == ("B\nU0:%x[-2,3]\n", [4, 1])
    assert (chosen.path, chosen.source) == ("my.tpl", templates.source)
    assert (templates.columns(), templates.reach()) == ({1, 3}, (2, 1))
    assert TemplateSet.parse("U:%x[2,0]").reach() == (0, 2)
    assert TemplateSet.parse("B").reach() == (0, 0)


@pytest.mark.parametrize(
    ("count", "has"),
    [(2, "2 observation columns (0..1)"), (1, "1 observation column (0)"), (0, "no observation columns")],
)
def test_columns_the_data_lacks(count, has):
    templates = TemplateSet.parse("B\nU:%x[0,3]", path="my.tpl")
    with pytest.raises(TemplateError) as caught:
        templates.check_columns(count)
    message = f"my.tpl, line 2: template names column 3, but the data has {has} in 'U:%x[0,3]'"
    assert (str(caught.value), caught.value.line) == (message, 2)
    templates.check_columns(4)
    TemplateSet.parse("B").check_columns(0)


FIRST = "expected U, B or A as the first character of a template, got"
MACRO = "expected %x[row,column] with a row like -1, 0 or 1 and a column like 0, without blanks or '+'"
KNOWN = "expected %x[row,column] or one of " + ", ".join(f"%{name}" for name in FUNCTIONS)
BAD_MACROS = ["%x[0,0", "%x[+1,0]", "%x[0, 0]", "%x [0,0]", "%x[--1,0]", "%x[0,-1]", "%x[0]", "%x[,]",
              "%x[0,0,0]", "%x[٣,0]"]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "column", "problem"),
    [
        *((text, 1, f"{FIRST} {text[0]!r}") for text in ("X01:%x[0,0]", "u:%x[0,0]", "\0")),
        *((text, 1, f"{FIRST} a blank before the template") for text in (" U:%x[0,0]", "\tB", " # comment")),
        *((f"U:{text}", 3, f"unknown macro {text[:end]!r}: {KNOWN}")
          for text, end in (("%y[0,0]", 2), ("%%", 2), ("%sufix[0,0,3]", 6))),
        ("U:100%", 6, f"unknown macro '%': {KNOWN}"),
        ("U:%x[0,0]/%x", 11, f"{MACRO}, got '%x'"),
        *((f"U:{macro}", 3, f"{MACRO}, got {macro!r}") for macro in BAD_MACROS),
        *((f"U:%x[{row},0]", 3, f"row offset beyond ±255, got %x[{row},0]") for row in (256, -256)),
        ("U:%x[0,1000000]", 3, "column beyond 999999, got %x[0,1000000]"),
        ("U\0:%x[0,0]", 2, "expected text, got a NUL character"),
        ("U:a\rU:b", 4, "expected text, got a carriage return inside the line"),
        ("U:\ud83d", 3, "expected text, got half of a surrogate pair"),
    ],
)  # fmt: skip
def test_rejected_lines(line, column, problem):
    with pytest.raises(TemplateError) as caught:
        TemplateSet.parse(f"# first\n{line}\nB\n", path="my.tpl")
    error = caught.value
    assert str(error) == f"my.tpl, line 2, column {column}: {problem} in {line!r}"
    assert (error.path, error.line, error.column, error.text) == ("my.tpl", 2, column, line)


def test_endless_numbers_and_lines_give_short_messages():
    for line in ("U:%x[" + "9" * 5000 + ",0]", "U:%x[0," + "9" * 5000 + "]", "X" * 10_000, "U%x" * 5000):
        with pytest.raises(TemplateError) as caught:
            TemplateSet.parse(line)
        assert len(str(caught.value)) < 700
    assert one("U%x[" + "0" * 5000 + "1,0]").terms == (Term(1, 0),)


@pytest.mark.parametrize("text", ["", "\ufeff", "\n\r\n", "# only\n  \n"])
def test_no_templates(text):
    with pytest.raises(TemplateError, match=r"^my\.tpl: expected at least one template line, got none$"):
        TemplateSet.parse(text, path="my.tpl")


def test_read_accepts_bom_and_crlf_and_names_line_and_offset_of_bad_bytes(tmp_path):
    path = tmp_path / "a.tpl"
    path.write_bytes("\ufeffU字:%x[0,0]\r\nB\r\n".encode())
    templates = TemplateSet.read(path)
    assert (templates.text(), templates.path) == ("U字:%x[0,0]\nB\n", str(path))
    assert templates.source.encode() == path.read_bytes()
    path.write_bytes(b"B\nU:\xe4%x[0,0]\n")
    with pytest.raises(TemplateError, match="line 2: expected UTF-8, got byte 0xe4 at offset 4") as caught:
        TemplateSet.read(path)
    assert caught.value.line == 2


@pytest.mark.parametrize(
    ("name", "reason"), [("none.tpl", "No such file"), (".", "directory"), ("a\0b", "null byte")]
)
def test_read_without_a_file(tmp_path, name, reason):
    with pytest.raises(MtlError, match=f"cannot read the template file: .*{reason}"):
        TemplateSet.read(tmp_path / name)


ARCS = """A00:%x[h,pos]/%x[m-1,pos]/%direction[h,m]/%distance[h,m]
A01:%x[l-1,0]/%x[r+2,form]\nA02:%lower[b,form]/%position[b]\nA03:%x[l,pos]/%x[b@-2,pos]\nA04
"""


def test_templates_of_arcs_come_back_as_they_were():
    templates = TemplateSet.parse(ARCS)
    assert templates.text() == ARCS
    for template in templates:
        assert written(template.pieces, template.terms) == template.text
    assert TemplateSet.parse(templates.resolved(["FORM", "XPOS"]).text()) == templates


def test_columns_by_name_are_found_whatever_they_are_called():
    (template,) = TemplateSet.parse("A:%x[h,word]/%x[m,XPOS]/%x[m,1]").resolved(["FORM", "LEMMA", "POSTAG"])
    assert [term.column for term in template.terms] == [0, 2, 1]
    with pytest.raises(TemplateError, match="names column feats, but the data has the columns FORM"):
        TemplateSet.parse("A:%x[h,feats]").resolved(["FORM"])
    with pytest.raises(TemplateError, match="the columns of the data have no names"):
        TemplateSet.parse("U:%x[0,feats]").resolved([])


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        *((f"A:%x[{place},0]", "with a place like h, m-1") for place in ("0", "h1", "h@1", "b@+1")),
        ("A:%x[b@0,0]", "from @1"),
        ("A:%x[h+300,0]", "beyond ±255"),
        ("A:%x[h,0]/%x[l,0]", "counted from h and m, or from l and r"),
        ("A:%x[b,0]/%x[b@1,0]", "one place between"),
        ("A:%direction[m,h]", "expected %direction\\[h,m\\]"),
        ("U:%direction[h,m]", "unknown macro"),
        ("U:%x[h,0]", "expected %x"),
    ],
)
def test_templates_of_arcs_that_mean_nothing_are_rejected(line, problem):
    with pytest.raises(TemplateError, match=problem):
        TemplateSet.parse(line)


@pytest.mark.parametrize("dialect", ["crfpp", "wapiti"])
def test_no_other_dialect_has_arcs_or_names(dialect):
    for line, what in (("A:%x[h,0]", "templates of arcs"), ("U:%x[0,pos]", "%x")):
        with pytest.raises(TemplateError, match=f"line 2: .* cannot express {what}"):
            converted(TemplateSet.parse(f"U:%x[0,0]\n{line}\n"), dialect)
