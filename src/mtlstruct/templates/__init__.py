"""The template language, its dialects, functions of cells, generated sets, presets and lint.

May import: `errors`, `_system` and `corpus`.
Start reading at `terms.Template` and `template_set.TemplateSet`.
"""

from mtlstruct.templates.dialects import DIALECTS
from mtlstruct.templates.functions import FUNCTIONS
from mtlstruct.templates.generate import PRESETS, generate, preset
from mtlstruct.templates.template_set import TemplateSet
from mtlstruct.templates.terms import Template, Term, boundary

__all__ = [
    "DIALECTS", "FUNCTIONS", "PRESETS", "Template", "TemplateSet", "Term", "boundary", "generate", "preset",
]  # fmt: skip
