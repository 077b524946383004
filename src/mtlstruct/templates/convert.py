"""Conversion of templates to another dialect."""

from mtlstruct.templates.dialects import CRFPP_ROWS, DIALECTS
from mtlstruct.templates.template_set import TemplateSet, check_dialect
from mtlstruct.templates.terms import Template, Term

_WAPITI = {"": "x", "lower": "X", "t": "t", "m": "m", "M": "M"}


class _Inexpressible(Exception):
    """What the dialect cannot express."""


def converted(templates: TemplateSet, to: str) -> str:
    """Return the file in another dialect, with its comments and blank lines."""
    check_dialect(to)
    at: dict[int, list[Template]] = {}
    for template in templates:
        at.setdefault(template.line, []).append(template)
    lines: list[str] = []
    for number, line in enumerate(templates.lines, 1):
        here, blank = at.get(number, []), not line.strip()
        if blank or line.startswith("#") or (here and to == templates.dialect):
            lines.append(line)
        elif not here:
            lines.append(f"# {line}")
        else:
            comment = line[len(DIALECTS[templates.dialect].cut(line)) :].strip()
            lines += [comment] * bool(comment)  # it moves above the line
            lines += [line_in(template, to, templates) for template in here]
    return "\n".join(lines).rstrip("\n") + "\n"


def line_in(template: Template, to: str, templates: TemplateSet) -> str:
    """Return one template in a dialect; raise TemplateError if it cannot express it."""
    if to == "mtlstruct":
        return template.text
    try:
        if template.kind == "A":
            raise _Inexpressible("templates of arcs")
        return _crfpp(template) if to == "crfpp" else _wapiti(template)
    except _Inexpressible as error:
        program = "CRF++" if to == "crfpp" else "Wapiti"
        raise templates.error(template, f"{program} cannot express {error}") from None


def _crfpp(template: Template) -> str:
    for term in template.terms:
        if term.function or term.absolute or term.name:
            raise _Inexpressible(term.text())
        if abs(term.row) > CRFPP_ROWS:
            raise _Inexpressible(f"a row beyond ±{CRFPP_ROWS}, got {term.text()}")
    return template.text


def _wapiti(template: Template) -> str:
    if any("#" in piece for piece in template.pieces):
        raise _Inexpressible("a '#' in a template, where a comment starts")
    pairs = zip(map(_wapiti_term, template.terms), template.pieces[1:], strict=True)
    first = template.pieces[0].replace(template.kind, template.kind.lower(), 1)
    return (first + "".join(macro + piece for macro, piece in pairs)).rstrip()


def _wapiti_term(term: Term) -> str:
    if term.name or term.function not in _WAPITI or any("#" in argument for argument in term.arguments):
        raise _Inexpressible(term.text())
    row = f"@{term.row}" if term.absolute else str(term.row)
    arguments = "".join(f',"{argument}"' for argument in term.arguments)
    return f"%{_WAPITI[term.function]}[{row},{term.column}{arguments}]"
