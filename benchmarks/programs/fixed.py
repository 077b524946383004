"""The best fixed setting: TASK TEMPLATES TRAIN TEST [DEV].

Trains with every setting of the grid of `auto` to the default gap, scored as `auto` scores, and prints the best
setting with its scores on the test part after training on all data.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from mtlstruct.cli.training_run import TrainingRun
from mtlstruct.tasks import FileOptions, task_of
from mtlstruct.training.options import Options
from mtlstruct.tuning.runner import Runner
from mtlstruct.tuning.search import Search, auto_settings, study_of
from mtlstruct.tuning.study import VALID, Store, Study, varied


def main(name: str, templates: Path, train: Path, test: Path, dev: Path | None = None) -> dict[str, object]:
    """The setting, its score where it was chosen, and its scores on the test part."""
    options, task = Options(task=name), task_of(name)  # type: ignore[arg-type]
    data = TrainingRun(options, templates, train, Path("unused"), valid=dev).read()
    study = study_of(data.corpus, data.templates, auto_settings(options), task, valid=data.valid)
    search, runner = Search(study, Store(None), task), Runner.encode(study, task)
    for trials in search:
        for outcome in runner.run(trials, search.store, jobs=1):
            assert outcome.failure is None, outcome.failure
    gold = task.read(test, FileOptions(tags=options.tags, columns=len(data.corpus.columns)))
    last = Study(data.corpus, data.templates, (search.best.options,), (VALID,), gold)
    scores = Runner(last, runner.material, task).run_trial(last.trials[0])["scores"]
    return {"dev": search.best.mean(search.score), **varied(search.best.options), **scores}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], *map(Path, sys.argv[2:]))))
