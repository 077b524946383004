"""Every row of the tables keeps its contract, and what does not fit together is refused with a sentence."""

from dataclasses import replace

import numpy as np
import pytest
from support.naive import random_corpus

from mtlstruct import errors
from mtlstruct.errors import IncompatibleError, MtlError
from mtlstruct.objective.regularizers import L2, Regularizer
from mtlstruct.solvers import SOLVERS, check_needs
from mtlstruct.solvers.cutting_plane import MASTERS
from mtlstruct.structures import STRUCTURES
from mtlstruct.templates import TemplateSet
from mtlstruct.training import train as train_module
from mtlstruct.training.methods import METHODS, make_solver, regularizer, solver_name
from mtlstruct.training.options import Options
from mtlstruct.training.train import structure_of, without_label_pairs


def test_every_method_has_a_regularizer_and_solvers():
    for name, row in METHODS.items():
        assert isinstance(regularizer(Options(method=name)), Regularizer)
        for loss, solvers in row.solvers.items():
            for solver in solvers:
                made = make_solver(Options(method=name, loss=loss, solver=solver))
                assert isinstance(made, SOLVERS[solver])
                assert solver != "cutting-plane" or type(regularizer(Options(method=name))) in MASTERS


@pytest.mark.parametrize("name", STRUCTURES)
def test_every_structure_has_what_the_solvers_need(name):
    structure = STRUCTURES[name](3)
    assert structure.name == name
    assert structure.labels == 3
    assert len(structure.widths()) == len(structure.sites(np.array([0, 2])))
    for method, row in METHODS.items():
        for solver in {solver for solvers in row.solvers.values() for solver in solvers}:
            check_needs(SOLVERS[solver](), structure, regularizer(Options(method=method)))


def test_a_missing_method_of_a_structure_is_named():
    class Bare:
        name = "bare"
        labels = 2

    with pytest.raises(IncompatibleError, match="needs `decode`, which neither Bare nor L2 offers"):
        check_needs(SOLVERS["coordinate"](), Bare(), L2())


def test_all_errors_derive_from_mtl_error():
    types = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, Exception)]
    kinds = [e for e in types if not issubclass(e, Warning)]
    assert all(issubclass(kind, MtlError) for kind in kinds)
    assert all(kind.__name__ in errors.__doc__ for kind in kinds)


@pytest.mark.parametrize(
    ("given", "loss", "solver", "c"),
    [
        ({}, "hinge", "coordinate", 1.0),
        ({"c": 3.0}, "hinge", "coordinate", 3.0),
        ({"loss": "log"}, "log", "lbfgs", 20.0),
        ({"method": "crf-l2"}, "log", "lbfgs", 1.0),
        ({"loss": "log", "solver": "coordinate"}, "log", "coordinate", 20.0),
        ({"loss": "softmax-margin", "c": 1.0}, "softmax-margin", "coordinate", 1.0),
        ({"loss": "log", "method": "pmtl", "p": 3.0, "c": 1.0}, "log", "coordinate", 1.0),
    ],
)
def test_many_labels_change_the_default_loss_or_solver(given, loss, solver, c, monkeypatch):
    monkeypatch.setattr(train_module, "MAX_PAIR_BYTES", 0)
    data = random_corpus(np.random.default_rng(0), labels=3)
    options = without_label_pairs(Options(**given), data, TemplateSet.parse("U0:%x[0,0]"))
    assert (options.loss_name, solver_name(options), options.c_value) == (loss, solver, c)


def test_labels_whose_costs_do_not_fit_into_memory_are_rejected():
    data = replace(random_corpus(np.random.default_rng(0)), labels=("x",) * 10_000_000)
    with pytest.raises(
        IncompatibleError, match="10,000,000 labels: the costs of all pairs would take 800000"
    ):
        structure_of(data, Options())
