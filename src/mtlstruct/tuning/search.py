"""Search over settings: the grid of `--method auto`, its rounds, and the rule of choice.

The grid crosses the losses with three values of p and a few of c. The first round trains all
settings for one pass, the next ones train the best of them further (successive halving; Jamieson
and Talwalkar, AISTATS 2016). Among the settings whose score is within a quarter of a standard error
of the best, the one with the fewest templates is chosen, then the one with the fewest features,
then the one with the smallest c. The last round tries another label scheme with the best setting.

The standard error is that of the difference to the best score, by the method of batch means: the
held-out sentences are divided into batches of consecutive sentences, and both settings are scored
on each. Nothing depends on time, so the same data and seed give the same choice on any number of
threads, unless a time limit ends the search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mtlstruct._system.threads import get_threads
from mtlstruct.corpus import Corpus
from mtlstruct.errors import IncompatibleError, MtlError
from mtlstruct.structures.schemes import SCHEMES, recognised
from mtlstruct.templates import TemplateSet
from mtlstruct.training.methods import solver_name
from mtlstruct.training.options import TASK_SCHEMES, Loss, Method, Options
from mtlstruct.training.train import without_label_pairs
from mtlstruct.tuning.runner import Runner
from mtlstruct.tuning.study import VALID, Finding, Store, Study, Trial, best, finding, folds, held_out, varied

HELD_OUT = 0.2
"""The share of the sentences that is held out by default."""

FEW_SENTENCES, FOLDS = 2000, 3
"""Data of fewer sentences are divided into so many folds by default, if the task allows it."""

TIE_ERRORS = 0.25
"""So many standard errors below the best score, a smaller model is preferred."""

LADDERS: dict[Loss, dict[float, tuple[float, ...]]] = {
    "log": {1.0: (5, 20, 50), 4 / 3: (2, 5, 20), 2.0: (0.5, 2, 5)},
    "hinge": {1.0: (1, 10), 1.5: (0.1, 0.3, 1), 2.0: (0.03, 0.1, 0.5)},
}
"""The values of c to try for each loss and p. The larger p, the closer the same c fits."""

METHODS: dict[tuple[Loss, float], Method] = {("log", 2.0): "crf-l2", ("hinge", 2.0): "svm"}
"""The methods that are p = 2; p = 1 is mtl, others are pmtl."""

SIZES = ("active_templates", "features")
"""Figures of the size of a model; the smaller one is preferred, by the first that differs."""

SCORES = {"sequences": "sequence_accuracy", "fields": "field_f1"}
"""Names of scores on the command line that differ from those in results. Fields are chunks, or runs
of equal labels where labels mark no chunks."""


class Round(NamedTuple):
    """One round of a search: when its trainings end, and how many settings it keeps."""

    passes: int
    gap: float
    keep: int


ROUNDS = (Round(1, 0.05, 6), Round(2, 0.02, 3), Round(6, 0.01, 3))
"""The rounds of `auto`."""


def auto_settings(options: Options) -> list[Options]:
    """Return the settings that `auto` tries. A loss, p or c that is given is not varied.

    Settings that the task or another option excludes are left out, and so are losses that the
    coordinate solver does not support, unless the loss or a solver is given.
    """
    found, problem, free = [], None, options.loss is None and options.solver is None
    for loss in LADDERS if options.loss is None else [options.loss]:
        ladders = LADDERS["hinge" if loss == "hinge" else "log"]
        for p in ladders if options.p is None else [options.p]:
            method: Method = "mtl" if p == 1 else METHODS.get((loss, p), "pmtl")
            ladder = ladders[min(ladders, key=lambda known: abs(known - p))]
            for c in ladder if options.c is None else [options.c]:
                one = replace(options, method=method, loss=loss, p=p if method == "pmtl" else None, c=c)
                try:
                    if solver_name(one.checked()) == "coordinate" or not free:
                        found.append(one.checked())
                except IncompatibleError as error:
                    problem = error
    if not found:
        raise problem or IncompatibleError("--method auto: no setting fits the other options")
    return found


def _other_schemes(study: Study) -> list[str]:
    """Return the label schemes for the last round of `auto`; none if one is given."""
    options, corpus = study.settings[0], study.corpus
    if options.scheme != "keep":
        return []
    if options.task != "sequence":
        return [scheme for scheme in TASK_SCHEMES.get(options.task, ()) if scheme not in ("keep", "bie")]
    assert corpus.outputs is not None
    known = recognised(corpus.labels, corpus.outputs, corpus.ptr)
    if known is None:
        return []
    return ["bio" if len({*SCHEMES[known].places}) == 4 else "bioes"]


class Search:
    """Settings of a study that are trained in rounds, and the choice among them.

    Without rounds all settings are trained once, as their options say. After the last round the
    best setting is trained with each of `schemes`, too.
    """

    def __init__(self, study: Study, store: Store, task: Any, rounds: Sequence[Round] = ()) -> None:
        self.study, self.store, self.task, self.rounds = study, store, task, rounds
        self.schemes = _other_schemes(study) if rounds else []
        self.left: Sequence[Options] = study.settings
        self.added: list[Options] = []
        self.found: dict[Options, Finding] = {}
        known = [*task.scores, "sequences", *(["fields"] if "f1" in task.scores else [])]
        if isinstance(study.score, str) and study.score not in known:
            raise IncompatibleError(
                f"--score {study.score} is not for the task {task.name}: expected one of {', '.join(known)}"
            )

    def __iter__(self) -> Iterator[list[Trial]]:
        """Yield the trials of each round, to be run before the next round is asked for."""
        for number, plan in enumerate(self.rounds or (None,)):
            self.left = self.left if number == 0 else self._best(self.rounds[number - 1].keep)
            yield from self._round(self.left, plan)
        if self.schemes and (kept := self._best(1)):
            self.added = [replace(kept[0], scheme=scheme) for scheme in self.schemes]  # type: ignore[arg-type]
            self.left = [*self.left, *self.added]
            yield from self._round(self.added, self.rounds[-1])

    def _round(self, settings: Sequence[Options], plan: Round | None) -> Iterator[list[Trial]]:
        """Yield the trials of some settings, slow ones first; then take their results."""
        trials = {}
        for options in settings:
            stop, changed = options.stop(), {}
            if plan is not None:
                changed = {"max_iter": min(stop.max_passes, plan.passes), "gap": max(stop.gap, plan.gap)}
            trials[options] = self.study.trials_of(replace(options, **changed))  # type: ignore[arg-type]
        yield sorted((t for some in trials.values() for t in some), key=lambda t: -t.options.c_value)
        for options, some in trials.items():
            one = finding(options, some, self.store)
            if one.complete or options not in self.found:
                self.found[options] = one

    @property
    def total(self) -> int:
        """The number of trials of all rounds."""
        settings = [len(self.study.settings)]
        for plan in self.rounds[:-1]:
            settings.append(min(plan.keep, settings[-1]))
        return (sum(settings) + len(self.schemes)) * len(self.study.splits)

    def _best(self, count: int) -> list[Options]:
        """Return the best settings of the last round, in their order."""
        able = [options for options in self.left if self.found[options].complete]
        ranked = sorted(able, key=lambda options: -self.found[options].mean(self.score))
        return [options for options in able if options in ranked[:count]]

    @property
    def findings(self) -> list[Finding]:
        """The newest results of each setting that has some."""
        known = (self.found.get(options) for options in (*self.study.settings, *self.added))
        return [one for one in known if one and one.results]

    @property
    def score(self) -> str:
        """The name of the score that is compared, as in results."""
        given, results = self.study.score, [result for one in self.findings for result in one.results]
        if given is None:
            name: str = self.task.chosen_score(results)
            return name
        if given == "fields" and not any("field_f1" in result["scores"] for result in results):
            return "f1"
        return "score" if callable(given) else SCORES.get(given, given)

    @cached_property
    def best(self) -> Finding:
        """The setting with the best score among those of the last round."""
        return best([one for one in self.findings if one.options in self.left], self.score)

    @cached_property
    def near(self) -> list[Finding]:
        """The settings within TIE_ERRORS standard errors of the best, in the order of preference.

        Those with the labels of the data come first, then smaller models.
        """
        able = [one for one in self.findings if one.options in self.left and one.complete]
        best = self.best.mean(self.score)
        found = [one for one in able if best - one.mean(self.score) <= TIE_ERRORS * self.error(one)]

        def key(one: Finding) -> list[Any]:
            return [one.options in self.added, *(one.mean(name) for name in SIZES), one.options.c_value]

        return sorted(found, key=key)

    @property
    def chosen(self) -> Finding:
        """The chosen setting: the smallest model of those nearly as good as the best."""
        return self.near[0]

    def error(self, one: Finding) -> float:
        """Return the standard error of the difference of a score to the best, by batch means."""
        difference = self.best.batches(self.score) - one.batches(self.score)
        return float(np.std(difference, ddof=1) / np.sqrt(len(difference))) if len(difference) > 1 else 0.0

    @property
    def reason(self) -> str:
        """Why the chosen setting was chosen, in words."""
        top = f"best {self.score} {self.best.mean(self.score):.2f} on {self.study.scored_on}"
        if len(self.near) == 1:
            return f"{top}, and no other setting is within a quarter of a standard error of it"
        others = f"{len(self.near)} settings are within a quarter of a standard error of the {top}"
        return f"{others}; this one has the smallest model"

    def facts(self) -> dict[str, Any]:
        """Return what was tried and why the choice was made, for the model and `--json`."""
        return {
            "score": self.score,
            "scored_on": self.study.scored_on,
            "reason": self.reason,
            "tried": [
                {
                    **varied(one.options),
                    "score": one.mean(self.score),
                    "error": self.error(one),
                    **{name: one.mean(name) for name in (*SIZES, "gap", "passes")},
                    "chosen": one is self.chosen,
                }
                for one in self.findings
                if one.complete
            ],
        }


def study_of(
    corpus: Corpus,
    templates: TemplateSet,
    settings: Sequence[Options],
    task: Any,
    valid: Corpus | None = None,
    *,
    parts: int | None = None,
    score: str | Callable[..., float] | None = None,
) -> Study:
    """Return a study that scores on `valid`, on `parts` folds, or on a fifth of the sentences.

    Settings whose dual variables do not fit into memory are left out, or all have other solvers.
    By default small corpora are divided into folds: a fifth of them is too little to compare on.
    Encoded trees cannot be divided: the study then has the other sentences only.
    """
    able = [without_label_pairs(options, corpus, templates) for options in settings]
    chosen = tuple(one for one, given in zip(able, settings, strict=True) if one is given) or tuple(able)
    study, seed = Study(corpus, templates, chosen, (VALID,), valid, score=score), settings[0].seed
    if valid is not None:
        return study
    if parts is None and task.divisible and FOLDS <= len(corpus) < FEW_SENTENCES:
        parts = FOLDS
    if parts is not None:
        if not task.divisible:
            raise IncompatibleError(f"--folds does not support the task {task.name}: expected --valid")
        return replace(study, splits=tuple(folds(len(corpus), parts, seed)))
    split = held_out(len(corpus), HELD_OUT, seed)
    if task.divisible:
        return replace(study, splits=(split,))
    assert split.train is not None
    assert split.test is not None
    part, rest = corpus.take(split.train), corpus.take(split.test)
    return replace(study, corpus=part, splits=(replace(VALID, facts=split.facts),), valid=rest)


def searched(
    corpus: Corpus, templates: TemplateSet, options: Options, task: Any, valid: Corpus | None = None
) -> Search:
    """Return the search of `auto` after its rounds, with all results in memory."""
    settings = auto_settings(replace(options, context=False))
    study = study_of(corpus, templates, settings, task, valid)
    found = Search(study, Store(None), task, ROUNDS)
    runner = Runner.encode(study, task)
    for trials in found:
        for outcome in runner.run(trials, found.store, jobs=runner.fitting(get_threads(), trials)):
            if outcome.failure is not None:
                raise MtlError(f"--method auto: {outcome.failure}")
    return found
