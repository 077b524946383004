"""Functions of a cell: what each gives, how the encoder uses them, and that models contain lists."""

import html
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.naive import corpus, random_corpus

from mtlstruct._system import archive
from mtlstruct.errors import ModelFileError, MtlError, TemplateError
from mtlstruct.features.index import encode_training
from mtlstruct.features.pruning import prune
from mtlstruct.model.model import Model
from mtlstruct.structures import SequenceStructure
from mtlstruct.templates import FUNCTIONS, TemplateSet, Term, regex
from mtlstruct.templates import arc_terms as arcs
from mtlstruct.templates.functions import LIST, NUMBER, VALUE, bound, signature
from mtlstruct.templates.regex import MAX_CELL_LENGTH, RegexError, compiled
from mtlstruct.templates.terms import written
from mtlstruct.training.train import Options, train

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "templates.md"


def value(macro, cell, **lists):
    """What a macro, written without row and column, gives for a cell."""
    name, _, rest = macro.partition("(")
    arguments = f",{rest[:-1]}" if rest[:-1] else ""
    (template,) = TemplateSet.parse(f"U:%{name}[0,0{arguments}]", lists=lists)
    (term,) = template.terms
    return bound(term.function, term.arguments, lists)(cell)


VALUES = {
    "prefix(3)": "Straße→Str im→im",
    "suffix(2)": "Straße→ße",
    "suffix(9)": "Straße→Straße",
    "lprefix(2)": "ÄRA→är",
    "lsuffix(2)": "HAUS→us",
    "lower()": "ΆΛΦΑ→άλφα",
    "X()": "AbC→abc",
    "mask()": "B-52٣→B-000",
    "root()": "U.S.-1990→us0000",
    "shape()": "O'Neil-98漢→X'Xxxx-00o",
    "short()": "Neill-1998→Xx-0",
    "case()": "haus→lower Haus→capital HAUS→upper A.→initial McNeil→mixed 漢12→none",
    "type()": "A4-漢字かな→upper+digit+punct+cjk+hiragana 三→numeral €→symbol",
    "len()": f"Straße→6 {'x' * 99}→20",
    "digits()": "ab→none 1998→all 3,5%→number 4th→some",
    "punct()": "--→all a-b→some ab→none",
    'test("^\\u\\l+$")': "Haus→true HAus→false",
    'match("[0-9]+")': "ab123c45→123",
    'match("z|b.")': "abcz→bc",
    'match("\\"")': 'a"b→"',
    'match("q")': "abc→",
    'm("\\d*$")': "ab12→12",
    'm("\\d*")': "12→",
    'M("\\u\\u?")': "xABC→ab",
    't("[")': "a[→true",
    'T("é")': "café→true",
}


@pytest.mark.parametrize("macro", VALUES)
def test_values(macro):
    for pair in VALUES[macro].split(" "):
        cell, _, expected = pair.partition("→")
        assert value(macro, cell) == expected


def test_lists_hold_whole_cells():
    given = [value('in("towns")', cell, towns=("Oslo", "New York")) for cell in ("Oslo", "oslo", "York")]
    assert given == ["true", "false", "false"]


def test_boundary_marks_are_not_passed_through():
    for name, row in FUNCTIONS.items():
        arguments = tuple({NUMBER: "1", LIST: "l"}.get(kind, "B") for kind in row.arguments)
        assert bound(name, arguments, {"l": ()})("_B-12") == "_B-12"


atoms = st.sampled_from(["a", "b", ".", r"\d", "[ab1]", "[^a]", "[a-c]", r"\."])
ours = st.lists(st.tuples(atoms, st.sampled_from(["", "*", "+", "?"])).map("".join), max_size=5).map("".join)
cells = st.text("abc1.", max_size=8)


@given(st.lists(ours, min_size=1, max_size=3), st.booleans(), st.booleans(), cells)
def test_our_expressions_are_those_of_python(parts, start, end, cell):
    text = "|".join("^" * start + part + "$" * end for part in parts)
    expected = re.search(text.replace("$", r"\Z"), cell)
    assert compiled(text).search(cell) == (expected and expected[0])


wapiti_atoms = st.tuples(st.sampled_from(["a", "b", ".", r"\d", r"\."]), st.sampled_from(["", "*", "?"]))
wapiti = st.lists(wapiti_atoms.map("".join), max_size=5).map("".join)


@given(wapiti, st.booleans(), st.booleans(), cells)
def test_wapiti_repeats_as_little_as_possible(body, start, end, cell):
    expected = re.search("^" * start + body.replace("*", "*?") + r"\Z" * end, cell)
    assert compiled("^" * start + body + "$" * end, wapiti=True).search(cell) == (expected and expected[0])


@given(st.text(max_size=12) | st.text("ab^$*+?|[]()\\-.", max_size=8), cells, st.booleans())
def test_any_text_is_an_expression_or_an_error(text, cell, wapiti):
    try:
        found = compiled(text, wapiti=wapiti)
    except RegexError:
        return
    result = found.search(cell)
    assert result is None or result in cell


def test_steps_are_bounded_by_atoms_and_characters(monkeypatch):
    """What a backtracking engine would need ages for takes a step for each atom and place, and no more."""
    steps, step = 0, regex._next

    def counted(*arguments):
        nonlocal steps
        steps += 1
        return step(*arguments)

    monkeypatch.setattr(regex, "_next", counted)
    for text in ("a*" * 30 + "b", "a?" * 32 + "a" * 32, ".*.*.*.*=.*", "a+" * 16 + "$|" + "a*" * 20 + "c"):
        found, steps = compiled(text), 0
        found.search("a" * MAX_CELL_LENGTH)
        assert steps <= (MAX_CELL_LENGTH + 1) * sum(len(branch.atoms) for branch in found.branches)


def test_long_cells_are_cut():
    assert compiled("b").search("a" * (MAX_CELL_LENGTH - 1) + "b") == "b"
    assert compiled("b").search("a" * MAX_CELL_LENGTH + "b") is None


BAD = ["(a)", "a{2}", "a**", "*a", "[a", "[]", "[b-a]", "\\", "a^", "a)", "a" * 65]


@pytest.mark.parametrize("text", [*BAD, "$|" * 501, "[" + "a" * 1000 + "]"])
def test_rejected_expressions(text):
    with pytest.raises(
        TemplateError, match="1,000 characters" if len(text) > 1000 else "regular expression|got"
    ):
        TemplateSet.parse(f'U:%match[0,0,"{text}"]')


@pytest.mark.parametrize(
    ("macro", "problem"),
    [
        ("%prefix[0,0]", "expected %prefix[row,column,n] with a row"),
        ("%prefix[0,0,0]", "expected a number from 1 to 99 in %prefix, got 0"),
        ("%prefix[0,0,100]", "expected a number from 1 to 99"),
        ('%prefix[0,0,"2"]', "expected %prefix[row,column,n]"),
        ("%shape[0,0,1]", "expected %shape[row,column]"),
        ("%match[0,0,a]", 'expected %match[row,column,"regex"]'),
        ('%match[0,0,"a]', 'expected %match[row,column,"regex"]'),
        ('%in[0,0,""]', "expected the name of a file in %in"),
        ("%lower[@0,0]", "expected a row from @1"),
        ('%in[0,0,"l.txt"]', "expected the list 'l.txt' to be given"),
        ("%x[0,0,1]", "expected %x[row,column]"),
    ],
)
def test_rejected_macros(macro, problem):
    with pytest.raises(TemplateError) as caught:
        TemplateSet.parse(f"U:{macro}")
    assert problem in str(caught.value)
    assert caught.value.line == 1


@st.composite
def terms(draw):
    name = draw(st.sampled_from(["", *(name for name in FUNCTIONS if name != VALUE)]))
    texts = {NUMBER: st.integers(1, 99).map(str), LIST: st.just("l.txt")}
    quoted = st.sampled_from(["a*", r"\u\"%", ".?]"[:2], "é,"])
    arguments = [draw(texts.get(kind, quoted)) for kind in (FUNCTIONS[name].arguments if name else ())]
    row, absolute = draw(st.integers(-5, 5)), draw(st.booleans())
    return Term(row, draw(st.integers(0, 2)), name, tuple(arguments), absolute and row != 0)


@given(st.lists(terms(), max_size=4))
def test_text_and_terms_are_inverse(drawn):
    line = written(("U0:", *["/"] * len(drawn)), tuple(drawn))
    (template,) = TemplateSet.parse(line, lists={"l.txt": ()})
    assert template.terms == tuple(drawn)
    assert template.text == line


def test_the_docs_list_every_function():
    rows = re.findall(
        r"^\| `(%[A-Za-z]+\[[^`]*\])` \| (.*?) \|",
        html.unescape(DOCS.read_text(encoding="utf-8")),
        re.MULTILINE,
    )
    of_arcs = [(f"%{name}[{','.join(row.anchor)}]", row.doc) for name, row in arcs.FUNCTIONS.items()]
    assert rows == [(signature(name), row.doc) for name, row in FUNCTIONS.items()] + of_arcs


def test_a_function_runs_once_for_a_distinct_value(monkeypatch):
    seen: list[str] = []
    row = FUNCTIONS["shape"]
    spy = type(row)(row.doc, lambda cell: seen.append(cell) or "x", *row.arguments)
    monkeypatch.setitem(FUNCTIONS, "shape", spy)
    data = corpus([[("a",), ("b",), ("a",)], [("a",), ("a",)]], [["A", "B", "A"], ["A", "A"]])
    templates = TemplateSet.parse("U:%shape[0,0]\nU:%shape[-1,0]/%shape[1,0]\nB")
    encode_training(data, templates, SequenceStructure(2).sites(data.ptr))
    assert seen == ["a", "b"]


@settings(max_examples=40)
@given(st.lists(terms().filter(lambda t: t.column < 2), min_size=2, max_size=3), st.integers(0, 10**6))
def test_any_selection_finds_its_joins_in_the_whole(drawn, seed):
    both = [written(("U:", *["/"] * len(order)), tuple(order)) for order in (drawn[::-1], drawn)]
    lines = [f"U:{term.text()}" for term in drawn] + both
    templates = TemplateSet.parse("\n".join(lines), lists={"l.txt": ("w1",)})
    data = random_corpus(np.random.default_rng(seed), 4, 5, 4)
    _, index = encode_training(data, templates, SequenceStructure(3).sites(data.ptr))
    for kept in ([len(lines) - 2], [len(lines) - 1], [0, len(lines) - 1], [1, len(lines) - 2]):
        used = [np.full(int(n), j in kept) for j, n in enumerate(index.sizes)]
        small, live = prune(index, used)
        assert live == kept
        sites = SequenceStructure(3).sites(data.ptr)
        before, after = index.encode(data, sites).designs[0], small.encode(data, sites).designs[0]
        whole = before.ids[: before.ptr[-1]].reshape(before.rows, -1)[:, kept]
        part = after.ids[: after.ptr[-1]].reshape(after.rows, -1)
        for a, b in zip(whole.T, part.T, strict=True):
            assert np.array_equal(a - a.min(), b - b.min())


def test_lists_are_read_beside_the_template_file(tmp_path, monkeypatch):
    path = tmp_path / "a.tpl"
    path.write_text('B\nU:%in[0,0,"sub/towns.txt"]\n')
    (tmp_path / "sub").mkdir()
    with pytest.raises(TemplateError, match=r"a\.tpl, line 2: .*towns\.txt: cannot read the list file"):
        TemplateSet.read(path)
    towns = tmp_path / "sub" / "towns.txt"
    towns.write_bytes(b"a\n\xff\n")
    with pytest.raises(TemplateError, match=r"a\.tpl, line 2: .*towns\.txt, line 2: expected UTF-8"):
        TemplateSet.read(path)
    towns.write_bytes("\ufeffOslo\r\n\r\n Bergen \r\nOslo\r\n".encode())
    assert TemplateSet.read(path).lists == {"sub/towns.txt": ("Oslo", "Bergen")}
    monkeypatch.setattr("mtlstruct.templates.template_set.MAX_LIST_ENTRIES", 1)
    with pytest.raises(MtlError, match="at most 1 entries in a list, got 2"):
        TemplateSet.read(path)


def trained(lists):
    data = random_corpus(np.random.default_rng(3), 40, 8, 12)
    templates = TemplateSet.parse('U:%in[0,0,"l"]\nU:%suffix[0,0,1]\nU:%x[@1,0]/%lower[0,0]\nB', lists=lists)
    return train(data, templates, Options()).model


def test_a_model_is_one_file(tmp_path):
    model = trained({"l": ("w1", "w5", "é")})
    model.save(tmp_path / "a.mtl")
    loaded = Model.load(tmp_path / "a.mtl")
    assert loaded.templates.lists == {"l": ("w1", "w5", "é")}
    text = random_corpus(np.random.default_rng(4), 30, 9, 15)
    assert np.array_equal(loaded.predict(text), model.predict(text))
    loaded.save(tmp_path / "b.mtl")
    assert (tmp_path / "a.mtl").read_bytes() == (tmp_path / "b.mtl").read_bytes()


@pytest.mark.parametrize("lists", [7, {"l": 7}, {"l": [7]}, {}, None])
def test_damaged_lists_are_rejected(tmp_path, lists):
    trained({"l": ("w1",)}).save(tmp_path / "a.mtl")
    header, arrays = archive.read(tmp_path / "a.mtl")
    archive.write(tmp_path / "b.mtl", {**header, "lists": lists}, arrays)
    with pytest.raises(ModelFileError, match="damaged"):
        Model.load(tmp_path / "b.mtl")
