"""The options of a training that `train` and `tune` share, besides those in `common`."""

from __future__ import annotations

from typing import Annotated

import typer

from mtlstruct.cli.common import LabelSupport, Normalize, Scaling, Solver, Tags, Task

TaskOption = Annotated[
    Task,
    typer.Option(
        "--task", help="Label sequences in columns, segmented text, trees, or a class for each line."
    ),
]
SolverOption = Annotated[
    Solver | None,
    typer.Option(
        "--solver",
        help="For margins: coordinate, the fast dual, or cutting-plane, the paper's algorithm.",
        show_default="the method's first",
    ),
]
LineSearchOption = Annotated[
    bool, typer.Option("--line-search", help="Cut near the best point (--solver cutting-plane).")
]
GapOption = Annotated[
    float | None, typer.Option("--gap", help="Stop at this relative duality gap.", show_default="0.01")
]
EpsilonOption = Annotated[
    float | None, typer.Option("--epsilon", help="Stop at this R_emp - R_s instead, as the paper does.")
]
EtaOption = Annotated[
    float | None,
    typer.Option(
        "--eta",
        help="Stop when the objective changed by less than this share three times instead, as CRF++ does.",
        show_default="1e-4 for crf-l1, irw-crf",
    ),
]
MaxIterOption = Annotated[
    int | None,
    typer.Option(
        "--max-iter",
        metavar="N",
        help="Stop after so many passes anyway.",
        show_default="1000",
    ),
]
ProjectiveOption = Annotated[
    bool, typer.Option("--projective", help="Trees without crossing arcs (--task dependency).")
]
SingleRootOption = Annotated[
    bool, typer.Option("--single-root", help="One token under the root (--task dependency).")
]
AllArcsOption = Annotated[
    bool, typer.Option("--all-arcs", help="Features of all arcs, not of gold's only (--task dependency).")
]
MinCountOption = Annotated[
    int, typer.Option("--min-count", metavar="N", help="Leave out attributes that are seen less often.")
]
NormalizeOption = Annotated[
    Normalize, typer.Option("--normalize", help="Look cells up in this Unicode form.")
]
TagsOption = Annotated[Tags, typer.Option("--tags", help="Labels of characters (--task segmentation).")]
LossWeightsOption = Annotated[
    str,
    typer.Option(
        "--loss-weights",
        metavar="L=W,…",
        help="What missing a label costs; 1 where not said.",
        show_default=False,
    ),
]
ShareIdenticalOption = Annotated[
    bool,
    typer.Option(
        "--share-identical", help="Lines that expand alike share their parameters, as in CRF++: one template."
    ),
]
ScalingOption = Annotated[
    Scaling,
    typer.Option(
        "--scaling", help="Bring the real values of each template to a mean square of 1, or do not."
    ),
]
LabelSupportOption = Annotated[
    LabelSupport,
    typer.Option(
        "--label-support",
        help="Attributes have features with all labels, or with those seen in training only.",
    ),
]
