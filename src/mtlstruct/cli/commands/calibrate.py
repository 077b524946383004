"""`calibrate`: fit a model's temperature on held-out data, so that its probabilities mean something."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mtlstruct.cli.common import EncodingOption, JsonOption, ThreadsOption, print_json, use_threads
from mtlstruct.cli.errors import complain
from mtlstruct.cli.outputs import ForceOption, Kind, check_outputs

FAULTLESS = 1e-6
"""A mean of −ln p that no held-out data have."""


def calibrate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `train` has saved.")],
    data: Annotated[
        Path, typer.Argument(metavar="HELDOUT", help="Labelled data that the model was not trained on.")
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Where to write the model.", show_default="MODEL")
    ] = None,
    force: ForceOption = False,
    json: JsonOption = False,
    threads: ThreadsOption = None,
    encoding: EncodingOption = "utf-8",
) -> None:
    """Fit the temperature at which a model's probabilities are worth most, and store it in the model.

    Labels and scores stay as they are: the temperature divides scores before they become probabilities. `train
    --valid` does the same for the methods that learn margins; those that learn probabilities have a temperature of 1.
    """
    from dataclasses import replace

    from mtlstruct.model.calibration import fit_temperature, trust
    from mtlstruct.model.model import Model
    from mtlstruct.tasks import task_of

    use_threads(threads)
    loaded = Model.load(model)
    check_outputs([(out or model, Kind.MODEL)], inputs=[data], force=force)
    corpus = task_of(loaded.task).read_for(loaded, data, encoding)
    lattice, gold = loaded.lattice(corpus), loaded.gold(corpus)
    before = trust(lattice, gold, loaded.temperature, calibrated=loaded.calibrated)
    temperature = fit_temperature(lattice, gold)
    after = trust(lattice, gold, temperature)
    if after.nll < FAULTLESS:
        complain(f"note: {model} labels {data} without a fault; is it what it was trained on?")
    replace(loaded, facts=loaded.facts | {"temperature": temperature}).save(out or model)
    if json:
        print_json(after.as_dict() | {"before": before.as_dict()})
    else:
        print(f"before: {before.line()}\nafter:  {after.line()}\nsaved {out or model}")
