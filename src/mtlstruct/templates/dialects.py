"""Template dialects: readers of lines in ours, CRF++'s and Wapiti's language.

A dialect reads a line into templates of our language, so that nothing behind it knows of dialects.
CRF++ drops a line with another first letter in silence: crfpp drops it and says so.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from mtlstruct.errors import shortened
from mtlstruct.templates import arc_terms as arcs
from mtlstruct.templates.functions import ALIASES, FUNCTIONS, VALUE, ArgumentError, check, signature
from mtlstruct.templates.terms import (
    MAX_CELLS,
    MAX_COLUMN,
    MAX_ROW,
    NO_COLUMN,
    Line,
    Template,
    Term,
    quoted,
    written,
)

CRFPP_ROWS = 8
"""The farthest CRF++ looks."""

_NAME = re.compile(r"%([A-Za-z]*)")
_QUOTED = r'"((?:[^"\\]|\\.)*)"'
_CELL = "with a row like -1, 0 or 1 and a column like 0, without blanks or '+'"


@dataclass(frozen=True)
class Dialect:
    """How lines are read.

    macro       opens with %, gives (term, end) or raises the line's error
    kinds       first letter -> the kinds of the templates that a line makes
    cut         the part of a line that is not comment or trailing blanks
    translated  whether lines must be rewritten to be ours
    """

    macro: Callable[[Line, int], tuple[Term, int]]
    kinds: dict[str, str]
    cut: Callable[[str], str] = lambda text: "" if text.startswith("#") else text
    translated: bool = True


def read_line(line: Line, dialect: str) -> tuple[Template, ...]:
    """Return the templates of a line: none (blank, comment), one, or Wapiti's two."""
    rules = DIALECTS[dialect]
    text = rules.cut(line.text)
    if not text.strip():
        return ()
    _check_first(line, rules)
    _check_characters(line)
    pieces, terms = _split(line, text, rules)
    if "A" in rules.kinds[text[0]]:
        arcs.check(line, terms)
    _check_values(line, rules.kinds[text[0]], terms)
    return tuple(_template(line, kind, pieces, terms, rules) for kind in rules.kinds[text[0]])


def dropped_by_crfpp(line: Line) -> bool:
    """Return whether CRF++ silently drops this line, which is not empty."""
    return bool(line.text.strip()) and line.text[0] not in ("#", *DIALECTS["crfpp"].kinds)


def _template(
    line: Line, kind: str, pieces: tuple[str, ...], terms: tuple[Term, ...], rules: Dialect
) -> Template:
    pieces = (kind + pieces[0][1:], *pieces[1:])
    text = written(pieces, terms) if rules.translated else line.text
    return Template(text, pieces[0].partition(":")[0], kind, pieces, terms, line.number)


def _check_first(line: Line, rules: Dialect) -> None:
    first = line.text[0]
    *others, last = ("u", "b", "*") if "*" in rules.kinds else tuple(rules.kinds)
    if first not in rules.kinds:
        got = "a blank before the template" if first.isspace() else repr(first)
        raise line.error(
            f"expected {', '.join(others)} or {last} as the first character of a template, got {got}", 1
        )


def _check_values(line: Line, kinds: str, terms: tuple[Term, ...]) -> None:
    """Raise on a %value that is not alone in a U line or the only one of an A line."""
    found = [term for term in terms if term.function == VALUE]
    if kinds == "A" and (len(found) > 1 or any(term.anchor == "b" for term in found)):
        raise line.error(f"expected one %{VALUE} in an A line, counted from h, m, l or r")
    if found and kinds != "A" and (kinds != "U" or len(terms) > 1 or terms[0].absolute):
        raise line.error(f"expected %{VALUE}[row,column] alone in a U line")


def _check_characters(line: Line) -> None:
    odd = re.search("[\0\r\ud800-\udfff]", line.text)
    if odd is None:
        return
    got = {"\0": "a NUL character", "\r": "a carriage return inside the line"}
    raise line.error(f"expected text, got {got.get(odd[0], 'half of a surrogate pair')}", odd.start() + 1)


def _split(line: Line, text: str, rules: Dialect) -> tuple[tuple[str, ...], tuple[Term, ...]]:
    """Cut a line into literal pieces and the terms between them."""
    pieces: list[str] = []
    terms: list[Term] = []
    start = 0
    cut = Line(text, line.number, line.path)
    while (at := text.find("%", start)) >= 0:
        if len(terms) == MAX_CELLS:
            raise line.error(f"expected at most {MAX_CELLS} cells, got more", at + 1)
        term, end = rules.macro(cut, at)
        pieces.append(text[start:at])
        terms.append(term)
        start = end
    return (*pieces, text[start:]), tuple(terms)


def _checked(line: Line, at: int, end: int, term: Term, farthest: int = MAX_ROW) -> tuple[Term, int]:
    """Return the term and its end, or raise on its numbers and arguments."""
    macro = shortened(line.text[at:end], 100)
    if abs(term.row) > farthest:
        raise line.error(f"row offset beyond ±{farthest}, got {macro}", at + 1)
    if term.absolute and term.row == 0:
        raise line.error(f"expected a row from @1 (the first token) or @-1 (the last), got {macro}", at + 1)
    if term.column > MAX_COLUMN:
        raise line.error(f"column beyond {MAX_COLUMN}, got {macro}", at + 1)
    if term.function:
        try:
            check(term.function, term.arguments)
        except ArgumentError as error:
            raise line.error(str(error), at + 1) from None
    return term, end


def _number(digits: str, sign: str = "") -> int:
    # Ten significant digits are beyond every limit; int() itself refuses a few thousand.
    number = int(digits.lstrip("0")[:10] or "0")
    return -number if sign == "-" else number


# ---------------------------------------------------------------- ours

_COLUMN = r'([0-9]+|[A-Za-z][A-Za-z0-9_]*|"(?:[^"\\]|\\.)*")'
_ARGUMENTS = rf"((?:,(?:[0-9]+|{_QUOTED}))*)"
_OURS = re.compile(rf"%([A-Za-z]+)\[()(@?)(-?)([0-9]+),{_COLUMN}{_ARGUMENTS}\]")
_ARC = re.compile(rf"%([A-Za-z]+)\[([{''.join(arcs.ANCHORS)}])(@?)([+-]?)([0-9]*),{_COLUMN}{_ARGUMENTS}\]")
_ARGUMENT = re.compile(rf",(?:([0-9]+)|{_QUOTED})")


def _our_macro(line: Line, at: int) -> tuple[Term, int]:
    name = _NAME.match(line.text, at)[1]  # type: ignore[index]  # it has a % there
    on_arcs = line.text.startswith("A")
    if on_arcs and name in arcs.FUNCTIONS:
        return arcs.site_macro(line, at, name)
    if name not in FUNCTIONS and name not in ALIASES:
        known = ", ".join(f"%{function}" for function in (*FUNCTIONS, *(arcs.FUNCTIONS if on_arcs else ())))
        got = shortened("%" + name, 100) if name else line.text[at : at + 2]
        raise line.error(f"unknown macro {got!r}: expected %x[row,column] or one of {known}", at + 1)
    function = ALIASES.get(name, name)
    macro = (_ARC if on_arcs else _OURS).match(line.text, at)
    if macro is None or (not function and macro[7]) or (on_arcs and not arcs.sound(*macro.group(2, 3, 4, 5))):
        raise line.bad_macro(at, f"{signature(function, name)} {arcs.CELL if on_arcs else _CELL}")
    term = Term(
        row=_number(macro[5], macro[4]),
        column=_number(macro[6]) if macro[6].isdigit() else NO_COLUMN,
        function=function,
        arguments=_arguments(line, at, macro[7], function),
        absolute=bool(macro[3]),
        anchor=macro[2],
        name=_column_name(line, at, macro[6]),
    )
    return _checked(line, at, macro.end(), term)


def _column_name(line: Line, at: int, text: str) -> str:
    """Return the name of a column, in canonical quotes if it is quoted; "" for a number."""
    if text.isdigit():
        return ""
    if not text.startswith('"'):
        return text
    try:
        return quoted(json.loads(text))
    except ValueError:
        raise line.error(
            f"expected a name of a column in JSON's quotes, got {shortened(text, 100)}", at + 1
        ) from None


def _arguments(line: Line, at: int, text: str, function: str) -> tuple[str, ...]:
    """Return the arguments after the column, without leading zeros and quotes."""
    found = [(m[1], m[2]) for m in _ARGUMENT.finditer(text)]
    kinds = FUNCTIONS[function].arguments if function else ()
    if [number is not None for number, _ in found] != [kind == "n" for kind in kinds]:
        raise line.bad_macro(at, f"{signature(function)} {_CELL}")
    return tuple(str(_number(number)) if number is not None else quoted for number, quoted in found)


# ---------------------------------------------------------------- CRF++

_CRFPP = re.compile(r"%x\[(-?)([0-9]*),([0-9]*)\]")


def _crfpp_macro(line: Line, at: int) -> tuple[Term, int]:
    if not line.text.startswith("%x", at):
        raise line.error(f"unknown macro {line.text[at : at + 2]!r}: expected %x[row,column]", at + 1)
    macro = _CRFPP.match(line.text, at)
    if macro is None:
        raise line.bad_macro(at, f"%x[row,column] {_CELL}")
    term = Term(_number(macro[2], macro[1]), _number(macro[3]))
    return _checked(line, at, macro.end(), term, CRFPP_ROWS)


# ---------------------------------------------------------------- Wapiti

_WAPITI = re.compile(rf"%([xtmXTM])\[(@?)\s*([+-]?)([0-9]+),\s*\+?([0-9]+)(?:,{_QUOTED})?\]")
_REGEX = ',"regex"'
_WAPITI_NAMES = {"x": "", "X": "lower", "t": "t", "T": "t", "m": "m", "M": "M"}


def _wapiti_macro(line: Line, at: int) -> tuple[Term, int]:
    name = line.text[at + 1 : at + 2]
    if name not in _WAPITI_NAMES:
        raise line.error(f"unknown macro {line.text[at : at + 2]!r}: expected %x, %t or %m", at + 1)
    macro = _WAPITI.match(line.text, at)
    wants = name in "tTmM"
    if macro is None or (macro[6] is not None) != wants:
        raise line.bad_macro(at, f"%{name}[row,column{_REGEX if wants else ''}]")
    for digits in macro.group(4, 5):
        if len(digits) > 1 and digits[0] == "0":
            got = shortened(digits, 100)
            raise line.error(f"expected a number without a leading 0 (octal to Wapiti), got {got}", at + 1)
    arguments = (macro[6],) if wants else ()
    row, column = _number(macro[4], macro[3]), _number(macro[5])
    term = Term(row, column, _WAPITI_NAMES[name], arguments, bool(macro[2]))
    return _checked(line, at, macro.end(), term)


_UB = {"U": "U", "B": "B"}
_WAPITI_KINDS = {"u": "U", "U": "U", "b": "B", "B": "B", "*": "UB"}
DIALECTS: dict[str, Dialect] = {
    "mtlstruct": Dialect(_our_macro, _UB | {"A": "A"}, translated=False),
    "crfpp": Dialect(_crfpp_macro, _UB),
    "wapiti": Dialect(_wapiti_macro, _WAPITI_KINDS, lambda text: text.partition("#")[0].rstrip()),
}
"""Dialects by name."""
