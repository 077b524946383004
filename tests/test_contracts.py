"""Every row of the tables keeps its contract, and what does not fit together is refused with a sentence."""

import numpy as np
import pytest
from naive import corpus, random_corpus

from mtlstruct.errors import IncompatibleError, MtlError, TemplateError
from mtlstruct.features.index import encode_training
from mtlstruct.formats import FORMATS
from mtlstruct.objective.losses import LOSSES
from mtlstruct.objective.regularizers import L2, REGULARIZERS
from mtlstruct.solvers import LEARNERS, Stop, check_needs
from mtlstruct.solvers.cutting_plane import MASTERS
from mtlstruct.structures import STRUCTURES, Sites
from mtlstruct.templates import TemplateSet
from mtlstruct.training.methods import METHODS, learner, regularizer


def test_every_recipe_has_its_pieces():
    for name, row in METHODS.items():
        assert type(regularizer(name)) in REGULARIZERS.values()
        assert type(row.loss()) in LOSSES.values()
        for solver in row.solvers:
            assert solver in LEARNERS
            assert isinstance(learner(name, solver, Stop()), LEARNERS[solver])
        if "cutting-plane" in row.solvers:
            assert type(regularizer(name)) in MASTERS


@pytest.mark.parametrize("name", STRUCTURES)
def test_every_structure_has_what_the_learners_need(name):
    structure = STRUCTURES[name](3)
    assert structure.name == name
    assert structure.labels == 3
    assert len(structure.widths()) == len(structure.sites(np.array([0, 2])))
    for method, row in METHODS.items():
        for solver in row.solvers:
            check_needs(LEARNERS[solver](), structure, regularizer(method))


def test_a_learner_says_what_it_misses():
    class Bare:
        name = "bare"
        labels = 2

    with pytest.raises(IncompatibleError, match="needs `decode`, which neither Bare nor L2 offers"):
        check_needs(LEARNERS["coordinate"](), Bare(), L2())


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_reads_streams_and_writes(name):
    for function in ("read", "stream", "write"):
        assert callable(getattr(FORMATS[name], function))


@pytest.mark.parametrize("name", LOSSES)
def test_losses_cost_nothing_where_right(name):
    table = LOSSES[name]().table("abcd")
    assert table.shape == (4, 4)
    assert not table.diagonal().any()
    assert table.min() >= 0


def test_a_template_without_sites_is_refused_by_its_line():
    data = corpus([[("a",)]], [["A"]])
    only_nodes = (Sites("node", "U", None, False),)
    with pytest.raises(TemplateError, match="line 2: this task has no sites for B templates"):
        encode_training(data, TemplateSet.parse("U0:%x[0,0]\nB"), only_nodes)


def test_errors_are_one_family():
    from mtlstruct import errors

    kinds = [
        e
        for e in vars(errors).values()
        if isinstance(e, type) and issubclass(e, Exception) and not issubclass(e, Warning)
    ]
    assert all(issubclass(kind, MtlError) for kind in kinds)
    assert all(kind.__name__ in errors.__doc__ for kind in kinds)


def test_a_corpus_renumbers_its_labels():
    data = random_corpus(np.random.default_rng(0), labels=3)
    other = data.relabelled(("L2", "L0"))
    names = np.array([*data.labels])
    expected = [("L2", "L0").index(y) if y in ("L2", "L0") else -1 for y in names[data.outputs]]
    assert other.outputs.tolist() == expected
