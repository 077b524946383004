"""Templates as data: the language they are written in, and sets of them made by rule."""

from mtlstruct.templates.generate import PRESETS, generate, preset
from mtlstruct.templates.language import Template, TemplateSet, Term, boundary

__all__ = ["PRESETS", "Template", "TemplateSet", "Term", "boundary", "generate", "preset"]
