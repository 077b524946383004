"""Learners with a Python package: train PEER TEMPLATES DATA MODEL [ITERATIONS], tag PEER TEMPLATES DATA MODEL [OUT].

PEER is a key of PEERS. Templates become attribute strings (attributes.py); the segmenters of Chinese have features
of their own and get words, and DATA has the columns character and label for them. `train` prints the CPU seconds of
making strings, files included; `tag` those of making and of tagging, models loaded. Labels go to OUT.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.programs.attributes import Attributes, Cells, sentences
from mtlstruct.formats import columns, segmented
from mtlstruct.templates import TemplateSet

Items = list[Any]
"""The tokens of a sentence in the form of a peer."""
Labels = list[str]
Tagger = Callable[[list[Items]], list[Labels]]


class Strings:
    """Tuples of attribute strings and labels, sentence by sentence; `seconds` is the CPU time of making them."""

    def __init__(self, templates: str, data: str, form: Callable[[Attributes, Cells], Items]) -> None:
        began = time.process_time()
        self.corpus, self.form = columns.read(data), form
        self.made = Attributes(TemplateSet.read(templates))
        assert self.corpus.outputs is not None
        self.labels = [self.corpus.labels[y] for y in self.corpus.outputs.tolist()]
        self.seconds = time.process_time() - began

    def __iter__(self) -> Iterator[tuple[Items, Labels]]:
        for number, (cells, span) in enumerate(
            zip(sentences(self.corpus), self.corpus.sentences(), strict=True)
        ):
            began = time.process_time()
            if number == 0:
                self.made.check(cells)
            found = self.form(self.made, cells), self.labels[span]
            self.seconds += time.process_time() - began
            yield found


class Crfsuite:
    """python-crfsuite, with one of its algorithms."""

    def __init__(self, algorithm: str) -> None:
        self.algorithm = algorithm

    def form(self, made: Attributes, cells: Cells) -> Items:
        """Return what its tagger takes without a copy."""
        import pycrfsuite

        return pycrfsuite.ItemSequence(made.of(cells))

    def train(self, data: Strings, model: str, iterations: int | None) -> int:
        """Train; return the largest number of iterations."""
        import pycrfsuite

        trainer = pycrfsuite.Trainer(algorithm=self.algorithm, verbose=False)
        if iterations is not None:
            trainer.set_params({"max_iterations": iterations})
        for items, labels in data:
            trainer.append(items, labels)
        trainer.train(model)
        return int(trainer.get_params()["max_iterations"])

    def tagger(self, model: str) -> Tagger:
        """Return the opened model."""
        import pycrfsuite

        opened = pycrfsuite.Tagger()
        opened.open(model)
        return lambda found: [opened.tag(items) for items in found]


class Underthesea:
    """underthesea_core: CRFsuite's model in Rust, OWL-QN; its default penalties."""

    def form(self, made: Attributes, cells: Cells) -> Items:
        """Return lists of strings."""
        return list(map(list, made.of(cells)))

    def train(self, data: Strings, model: str, iterations: int | None) -> int | None:
        """Train; it wants all sentences in memory."""
        import underthesea_core

        trainer = underthesea_core.CRFTrainer()
        if iterations is not None:
            trainer.set_max_iterations(iterations)
        X, y = zip(*data, strict=True)
        trainer.train(list(X), list(y))
        trainer.get_model().save(model)
        return iterations

    def tagger(self, model: str) -> Tagger:
        """Return the opened model."""
        import underthesea_core

        opened = underthesea_core.CRFTagger()
        opened.load(model)
        return lambda found: [opened.tag(items) for items in found]


class Chaine:
    """Chaine: CRFsuite with features of its own in C; L-BFGS, c2 = 1."""

    def form(self, made: Attributes, cells: Cells) -> Items:
        """Return a dict for each token, from the number of a template to its string."""
        return [{str(k): text for k, text in enumerate(row)} for row in made.of(cells)]

    def train(self, data: Strings, model: str, iterations: int | None) -> int | None:
        """Train; labels are read in a second turn over the file, strings are made once."""
        import chaine

        more = {} if iterations is None else {"max_iterations": iterations}
        spans = (data.labels[span] for span in data.corpus.sentences())
        chaine.train((items for items, _ in data), spans, model_filepath=model, verbose=0, **more)
        return iterations

    def tagger(self, model: str) -> Tagger:
        """Return the opened model."""
        import chaine

        opened = chaine.Model(model)
        return lambda found: [opened.predict_single(items) for items in found]


class VowpalWabbit:
    """Vowpal Wabbit's search: labels one after another, trained on gold histories; 2^24 weights.

    The labels are numbers, kept beside the model; its files are made with the strings.
    """

    passes = 5

    def form(self, made: Attributes, cells: Cells) -> Items:
        """Return the features of each token as its text format has them."""
        marks = str.maketrans({":": "_C_", "|": "_P_", " ": "_"})
        return [" | " + "\t".join(row).translate(marks).replace("\t", " ") for row in made.of(cells)]

    def train(self, data: Strings, model: str, iterations: int | None) -> int:
        """Train on a file, with a cache for passes after the first."""
        names, passes = list(data.corpus.labels), iterations or self.passes
        Path(f"{model}.labels").write_text("\n".join(names), "utf-8")
        number = {name: k for k, name in enumerate(names, 1)}
        with tempfile.TemporaryDirectory() as folder, open(f"{folder}/data", "w", encoding="utf-8") as out:
            for items, labels in data:
                began = time.process_time()
                out.writelines(f"{number[y]}{features}\n" for features, y in zip(items, labels, strict=True))
                out.write("\n")
                data.seconds += time.process_time() - began
            out.close()
            task = (
                f"--search {len(names)} --search_task sequence --search_rollin oracle --search_rollout none"
            )
            cache = f"--cache_file {folder}/cache" if passes > 1 else ""
            self._run(f"{task} -b 24 --passes {passes} {cache} --holdout_off -d {folder}/data -f {model}")
        return passes

    def tagger(self, model: str) -> Tagger:
        """Return a function that writes a file, runs the program in memory, and reads its labels."""
        names = Path(f"{model}.labels").read_text("utf-8").split("\n")

        def tag(found: list[Items]) -> list[Labels]:
            with tempfile.TemporaryDirectory() as folder:
                text = "\n\n".join("\n".join(items) for items in found) + "\n\n"
                Path(folder, "data").write_text(text, "utf-8")
                self._run(f"-t -i {model} -d {folder}/data -p {folder}/out")
                numbers = Path(folder, "out").read_text("utf-8").split()
            labels = iter([names[int(number) - 1] for number in numbers])
            return [[next(labels) for _ in items] for items in found]

        return tag

    def _run(self, options: str) -> None:
        from vowpalwabbit import Workspace

        Workspace(f"{options} --quiet").finish()


class Segmenter:
    """A segmenter with features of its own: it learns from words and cuts text."""

    def form(self, made: Attributes, cells: Cells) -> Items:
        """Return the characters."""
        return cells[0]

    def train(self, data: Strings, model: str, iterations: int | None) -> int | None:
        """Train on a file of words between blanks; the second is for scores that it wants to print."""
        with tempfile.TemporaryDirectory() as folder:
            read, began = data.seconds, time.process_time()
            lines = [" ".join(segmented.cut("".join(items), labels)) + "\n" for items, labels in data]
            words, few = Path(folder, "words"), Path(folder, "few")
            words.write_text("".join(lines), "utf-8")
            few.write_text("".join(lines[:20]), "utf-8")
            data.seconds = read + time.process_time() - began
            return self.learn(words, few, model, iterations)

    def tagger(self, model: str) -> Tagger:
        """Return a function that cuts each sentence and labels its characters."""
        cut = self.cutter(model)
        return lambda found: [segmented.labels_of(map(len, cut("".join(items)))) for items in found]

    def learn(self, words: Path, few: Path, model: str, iterations: int | None) -> int | None:
        """Train on a file."""
        raise NotImplementedError

    def cutter(self, model: str) -> Callable[[str], list[str]]:
        """Return the function that cuts a sentence into words."""
        raise NotImplementedError


class Pkuseg(Segmenter):
    """spacy-pkuseg; its model is a folder, kept as one tar file."""

    def learn(self, words: Path, few: Path, model: str, iterations: int | None) -> int:
        """Train for 20 iterations, its default."""
        import spacy_pkuseg

        folder = words.with_name("model")
        folder.mkdir()
        spacy_pkuseg.train(str(words), str(few), str(folder), train_iter=iterations or 20)
        with tarfile.open(model, "w") as out:
            out.add(folder, ".")
        return iterations or 20

    def cutter(self, model: str) -> Callable[[str], list[str]]:
        """Return its `cut`."""
        import spacy_pkuseg

        with tempfile.TemporaryDirectory() as folder, tarfile.open(model) as found:
            found.extractall(folder, filter="data")
            cut: Callable[[str], list[str]] = spacy_pkuseg.pkuseg(folder).cut
        return cut


class Ltp(Segmenter):
    """ltp-extension: averaged perceptron in Rust; it drops small weights at the end."""

    def learn(self, words: Path, few: Path, model: str, iterations: int | None) -> int:
        """Train for 5 epochs."""
        from ltp_extension.perceptron import CWSTrainer

        trainer = CWSTrainer()
        trainer.epoch, trainer.verbose = iterations or 5, False
        trainer.load_train_data(str(words))
        trainer.load_eval_data(str(few))
        trainer.train().save(model)
        return iterations or 5

    def cutter(self, model: str) -> Callable[[str], list[str]]:
        """Return its `predict`."""
        from ltp_extension.perceptron import CWSModel

        predict: Callable[[str], list[str]] = CWSModel.load(model).predict
        return predict


class Vaporetto(Segmenter):
    """Vaporetto, whose package reads models of KyTea; the program `train-kytea` makes them (a linear SVM)."""

    def learn(self, words: Path, few: Path, model: str, iterations: int | None) -> None:
        """Train with KyTea's defaults, segmentation alone."""
        from benchmarks.measure import run
        from benchmarks.places import program

        escapes = str.maketrans({sign: f"\\{sign}" for sign in "\\/&"})
        words.write_text(words.read_text("utf-8").translate(escapes), "utf-8")
        run([program("train-kytea", "KyTea"), "-tok", str(words), "-notags", "-model", model], together=True)

    def cutter(self, model: str) -> Callable[[str], list[str]]:
        """Return its words."""
        from vaporetto import Vaporetto as Package

        opened = Package.create_from_kytea_model(Path(model).read_bytes())
        return lambda text: [token.surface() for token in opened.tokenize(text)]


PEERS: dict[str, Any] = {
    "python-crfsuite": Crfsuite("ap"),
    "python-crfsuite-lbfgs": Crfsuite("lbfgs"),
    "underthesea_core": Underthesea(),
    "chaine": Chaine(),
    "vowpalwabbit": VowpalWabbit(),
    "spacy-pkuseg": Pkuseg(),
    "ltp-extension": Ltp(),
    "vaporetto": Vaporetto(),
}


def train(peer: str, templates: str, data: str, model: str, iterations: str | None = None) -> dict[str, Any]:
    """Train and return the seconds of making strings."""
    one = PEERS[peer]
    strings = Strings(templates, data, one.form)
    used = one.train(strings, model, None if iterations is None else int(iterations))
    return {"making": strings.seconds, "iterations": used}


def tag(peer: str, templates: str, data: str, model: str, out: str | None = None) -> dict[str, Any]:
    """Tag a file; the strings of all sentences are made before."""
    one = PEERS[peer]
    tagger, strings = one.tagger(model), Strings(templates, data, one.form)
    items = [found for found, _ in strings]
    began = time.process_time()
    found = tagger(items)
    tagging = time.process_time() - began
    if out is not None:
        Path(out).write_text("".join("\n".join(labels) + "\n\n" for labels in found), "utf-8")
    return {"tokens": strings.corpus.tokens, "making": strings.seconds, "tagging": tagging}


if __name__ == "__main__":
    print(json.dumps({"train": train, "tag": tag}[sys.argv[1]](*sys.argv[2:])))
