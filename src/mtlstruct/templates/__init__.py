"""Templates as data: the language they are written in, its dialects, and sets of them made by rule."""

from mtlstruct.templates.dialects import DIALECTS
from mtlstruct.templates.functions import FUNCTIONS
from mtlstruct.templates.generate import generate
from mtlstruct.templates.presets import PRESETS, preset
from mtlstruct.templates.template_set import TemplateSet
from mtlstruct.templates.terms import Template, Term, boundary

__all__ = [
    "DIALECTS",
    "FUNCTIONS",
    "PRESETS",
    "Template",
    "TemplateSet",
    "Term",
    "boundary",
    "generate",
    "preset",
]
