"""Bad input and bad options of every command: one sentence, exit code 2, and no file is changed."""

import shutil

import pytest
from support.classes import CLASS_TRAIN
from support.commands import TRAIN
from support.trees import conll

ODD_FILES = {
    "ragged.txt": b"a N X\nb Y\n",
    "none.txt": b"",
    "one.txt": b"a N O\nb N O\n",
    "latin1.txt": b"a N X\n\xe1 N Y\n",
    "narrow.txt": b"a X\nb Y\n",
    "utf16.txt": "a N O\n".encode("utf-16"),
    "bare.txt": b"Ana N\n",
    "other.txt": TRAIN.replace("canta", "calla", 1),
    "short.txt": TRAIN.partition("\n\n")[0],
    "class.txt": CLASS_TRAIN.replace("come", "coma"),
    "letter.tpl": b"X:%x[0,0]\n",
    "v.tpl": b"U9:%x[1,0]\n",
    "kb.tpl": b"U0:%x[0,0]\nB\n",
    "k1.tpl": b"U0:%x[0,0]\nU1:%x[-1,0]\n",
    "k2.tpl": b"U0:%x[0,0]\nU1:%x[@2,0]\n",
    "lcrf": b"lCRF\xe0\0\0\0",
    "crf.txt": "version: 100\ncost-factor: 1\nmaxid: 2\nxsize: 1\n\nA\nB\n\nU0:%x[0,0]\n\n0 U0:a\n\n0.1\n0.2\n",
    "roots.conll": conll(["a/D/0 b/N/0"]),
    "word.conll": conll(["x/D/0"]),
    "crossing.conll": conll(["a/a/3 b/b/4 c/c/0 d/d/3"]),
    "rules": b"Ana B-PER\n",
}
SAME_FILE = "cannot write there: this command uses the file for something else"
MISSING = "cannot be read: No such file or directory"
HINT = " --help)\n"

TRAINING = {
    "a.tpl ragged.txt": "ragged.txt, line 2: expected 3 columns as on line 1, got 2",
    "a.tpl none.txt": "none.txt: no sentences",
    "a.tpl one.txt": "the training data has one label only ('O'): there is nothing",
    "a.tpl latin1.txt": "latin1.txt, line 2: expected utf-8 text, got byte 0xe1 at offset 0; it can be read as "
    "cp1252 (--encoding cp1252)",
    "a.tpl narrow.txt": "a.tpl, line 7: template names column 1, but the data has 1",
    "a.tpl utf16.txt": "it looks like UTF-16: convert it to UTF-8",
    "a.tpl no.txt": f"no.txt: {MISSING}",
    "no.tpl train.txt": "no.tpl: cannot read the template file",
    "letter.tpl train.txt": "letter.tpl, line 1, column 1: expected U, B or A",
    "kb.tpl items.txt --task multiclass": "kb.tpl, line 2: expected templates of the kinds U for this task, got B",
    "k1.tpl items.txt --task multiclass": "k1.tpl, line 2: items stand alone: expected row 0, got -1",
    "k2.tpl items.txt --task multiclass": "k2.tpl, line 2: items stand alone: expected row 0, got 2",
    "arcs.tpl roots.conll --task dependency --single-root": "line 3: expected one token with head 0, got 2",
    "arcs.tpl crossing.conll --task dependency --projective --loss log": "sentence 1 has crossing arcs",
    "arcs.tpl roots.conll --task dependency --method mira --solver coordinate": "'mira' with the loss 'hinge' has "
    "no solver 'coordinate'",
    "arcs.tpl heads.conll --task dependency --labels": "one relation only ('rel')",
    "k.tpl items.txt --task multiclass --from m.mtl": "is for sequence",
    "arcs.tpl heads.conll --task dependency --from m.mtl": "trees",
    "v.tpl train.txt --from m.mtl": "no feature in common",
    "a.tpl train.txt --from no.mtl": "no.mtl: no such model file",
    "a.tpl train.txt --from m.mtl --log m.mtl": f"m.mtl: {SAME_FILE}",
    "a.tpl train.txt --projective": "--projective is for --task dependency",
    "a.tpl train.txt --labels": "--labels is for --task dependency",
    "a.tpl train.txt -c 0": "-c must be a number from 1e-09 to 1e+06, got 0.0",
    "a.tpl train.txt -p 4": "method 'mtl' has no exponent p: expected p with one of pmtl, mixed (CRF++'s -p is --thr",
    "a.tpl train.txt -c nan": "-c must be a number from 1e-09 to 1e+06, got nan",
    "a.tpl train.txt -c much": "-c must be a number from 1e-09 to 1e+06, got 'much'",
    "a.tpl train.txt --gap 0": "--gap must be a number from 1e-15 to 100, got 0.0",
    "a.tpl train.txt --max-iter 0": "--max-iter must be a whole number from 1 to 2,147,483,647, got 0",
    "a.tpl train.txt --threads 0": "--threads must be a whole number from 1 to 1,000, got 0",
    "a.tpl train.txt --seed -1": "--seed must be a whole number from 0 to 2,147,483,647, got -1",
    "a.tpl train.txt --loss hinge --loss-weights O=1e300": "--loss-weights of 'O' must be a number from 0 to 1e+06, "
    "got 1e+300",
    "a.tpl train.txt --loss hinge --loss-weights X=2": "a weight for the unknown label 'X': expected one of B-LOC",
    "a.tpl train.txt --loss-weights O=2": "--loss-weights is for --loss hinge and --loss softmax-margin",
    "a.tpl train.txt --method crf-l2 --loss-weights O=2": "--loss-weights is for --loss hinge and --loss softmax",
    "a.tpl train.txt --loss hinge --eta 1e-3": "--eta is for the log loss",
    "a.tpl train.txt --line-search": "--line-search is for --solver cutting-plane",
    "a.tpl train.txt --encoding klingon": "train.txt: expected the name of a text encoding, got 'klingon'",
    "a.tpl train.txt --separator ab": "--separator: expected one character or tab, got 'ab'",
    "a.tpl train.txt --valid ragged.txt": "ragged.txt, line 2: expected 3 columns",
    "a.tpl train.txt --log no/where.jsonl": "no/where.jsonl: cannot write there: the folder",
    "a.tpl train.txt --log train.txt": f"train.txt: {SAME_FILE}",
    "a.tpl train.txt --log n.mtl": f"n.mtl: {SAME_FILE}",
    "a.tpl train.txt --resume": "--resume is for --checkpoint DIR",
    "a.tpl train.txt --checkpoint a.tpl": "a.tpl: ",
    "a.tpl train.txt --folds 2": "--folds is for --method auto",
    "a.tpl train.txt --method auto --shards 2": "--method auto supports --shards with --engine ray only",
    "a.tpl train.txt --method auto --folds 2 --valid valid.txt": "--valid, --folds: expected one of them",
    "a.tpl train.txt --method auto --score uas": "--score uas is not for the task sequence",
    "a.tpl train.txt --method auto --minutes 0": "ended within --minutes",
    "a.tpl train.txt --address head:6379": "--address is for --engine ray",
    "a.tpl train.txt --engine ray --method mira": "mira updates its weights after each sentence",
    "a.tpl train.txt --shards 2 --context": "--shards does not support --context",
    "a.tpl train.txt --shards 2 --solver coordinate": "expected --solver cutting-plane, got coordinate",
    "a.tpl train.txt --shards 0": "--shards must be a whole number from 1 to 1,000, got 0",
}  # fmt: skip
"""Arguments of train but for the model."""

TARGETS = {
    "no/where/m.mtl": "no/where/m.mtl: cannot write there: the folder",
    ".": ".: cannot write there: it is a folder, expected a file name",
    "train.txt/m.mtl": "train.txt/m.mtl: cannot write there: the folder",
    "/proc/m.mtl": "/proc/m.mtl: cannot write there: no file can be made in /proc",
    "train.txt --force": f"train.txt: {SAME_FILE}",
    "a.tpl --force": f"a.tpl: {SAME_FILE}",
}

COMMANDS = {
    "fly": "No such command: fly (see mtlstruct --help)\n",
    "--fly": "No such option: --fly (see mtlstruct --help)\n",
    "trian a.tpl": "No such command: trian: did you mean train? (see mtlstruct --help)\n",
    "--verson": "No such option: --verson: did you mean --version? (see mtlstruct --help)\n",
    "templates chek a.tpl": "No such command: chek: did you mean check? (see mtlstruct templates --help)\n",
    "train --los log": "No such option: --los: did you mean --loss? (see mtlstruct train --help)\n",
    "warmup now": "expected no arguments (see mtlstruct warmup --help)\n",
    "train": HINT,
    "train --method x a b c": HINT,
    "score a b --task x": HINT,
    "train -f 3": "-f is --min-count",
    "train --preset ner": "templates generate --preset NAME",
    "train -a CRF-L1": "--method crf-l1",
    "train -e 0.1": "--eta",
    "train -t": "evaluate MODEL GOLD",
    "predict -m x": "predict MODEL INPUT",
    "predict -n 3": "predict --nbest",
    "predict -v2 x": "-v2 is predict --scores all",
    "weights -- --debug": "--debug: no such model file",
    "predict lcrf train.txt": "got a model of CRFsuite (mtlstruct import reads it)",
    "predict m.mtl no.txt": f"no.txt: {MISSING}",
    "predict m.mtl --raw": "--raw is for models that use only the word",
    "predict m.mtl train.txt --scores=some": "--scores",
    "predict m.mtl train.txt --nbest 0": "--nbest",
    "predict m.mtl train.txt --forbid O>I-X": "--forbid: expected labels of the model (B-LOC, B-PER, I-PER, O), got ",
    "predict m.mtl train.txt --forbid @rules": "rules, line 1: expected LABEL>LABEL, got 'Ana B-PER'",
    "predict m.mtl train.txt --forbid @rules -o rules --force": f"rules: {SAME_FILE}",
    "predict m.mtl train.txt -o train.txt": f"train.txt: {SAME_FILE}",
    "predict m.mtl train.txt -o m.mtl": f"m.mtl: {SAME_FILE}",
    "predict s.mtl --scores all": "--scores all is for labels in columns",
    "predict k.mtl items.txt --forbid N>V": "items stand alone: no class follows another",
    "predict t.mtl blind.conll --partial": "for trees",
    "predict t.mtl blind.conll --scores all": "for trees",
    "predict t.mtl blind.conll --nbest 2": "for trees",
    "evaluate m.mtl bare.txt": "bare.txt, line 1: expected 3 columns, got 2; is the label column missing?\n",
    "evaluate m.mtl train.txt --words words.txt": "--words is for segmentation",
    "score train.txt train.txt --task sequence --words words.txt": "--words is for segmentation",
    "score train.txt train.txt --task multiclass --scheme bio": "--scheme is for label sequences",
    "score train.txt other.txt --task sequence": "other.txt, line 9: expected 'canta' as in "
    "train.txt, got 'calla'\n",
    "score train.txt short.txt --task sequence": "expected 4 sentences",
    "score items.txt class.txt --task multiclass": "class.txt, line 3: expected 'come'",
    "score roots.conll word.conll --task dependency": "line 2: expected 'a' as in",
    "calibrate m.mtl train.txt -o train.txt": f"train.txt: {SAME_FILE}",
    "weights train.txt": "train.txt: not a model file",
    "weights m.mtl s.mtl": "s.mtl has other templates than m.mtl",
    "weights m.mtl --top 0": "--top",
    "weights m.mtl --json --csv": "expected one of them",
    "weights m.mtl --plot w.bmp": "expected a picture file ending in .png, .svg, .pdf",
    "weights t.mtl --labels": "has no arc labels",
    "explain m.mtl train.txt --sentence 9": "--sentence 9: ",
    "explain l.mtl trees.conll --html page.html --json": "--json and --html",
    "explain l.mtl trees.conll --html trees.conll": f"trees.conll: {SAME_FILE}",
    "report m.mtl m.mtl": "cannot write there",
    "report m.mtl m.mtl.log.jsonl": "cannot write there",
    "templates select m.mtl": "--top",
    "templates select m.mtl --top 2 --above 0.1": "one of",
    "templates select m.mtl --top 2 -o m.mtl": f"m.mtl: {SAME_FILE}",
    "templates select m.mtl --top 2 --keep U1": "--keep, --drop, --plot and --train are for --valid",
    "templates select m.mtl --valid train.txt --keep X*": "no template has a name like 'X*'",
    "templates select m.mtl --valid train.txt --keep U1 --drop U*": "both match U1",
    "templates check no.tpl": "no.tpl: ",
    "templates convert a.tpl --to wapiti -o a.tpl": f"a.tpl: {SAME_FILE}",
    "templates generate --window 3": "--window",
    "templates generate --columns 0,x": "--columns",
    "templates generate --columns 0,": "--columns",
    "templates generate --preset x": "unknown preset 'x'",
    "templates generate --preset ner-134 --bigrams": "--preset",
    "templates generate --reach 3": "--reach",
    "export m.mtl m.mtl": f"m.mtl: {SAME_FILE}",
    "export m.mtl no/m.txt": "does not exist",
    "export k.mtl out.txt": "CRF++ has label sequences only",
    "import lcrf n.mtl": "expected a model of CRFsuite",
    "import m.mtl n.mtl": "got a model, which needs no import",
    "import a.tpl n.mtl": "got templates",
    "import no.txt n.mtl": "cannot read it",
    "import crf.txt n.mtl --task multiclass": "CRF++ has label sequences only: the task is multiclass",
    "demo --out train.txt": "train.txt: cannot make the folder",
    "tune arcs.tpl heads.conll --task dependency --folds 2": "--folds does not support the task dependency: expected "
    "--valid",
    "tune a.tpl train.txt -c 1,,2": "-c: expected values separated by commas, got '1,,2'",
    "tune a.tpl train.txt -c 1,x": "-c: expected numbers separated by commas, got '1,x'",
    "tune a.tpl train.txt -c 0": "-c must be a number from 1e-09 to 1e+06, got 0.0",
    "tune a.tpl train.txt -c 1e99999999": "-c must be a number from 1e-09 to 1e+06, got inf",
    "train a.tpl": "expected the arguments [TEMPLATES] TRAIN MODEL",
    "tune": "expected the arguments [TEMPLATES] TRAIN (see mtlstruct tune --help)",
    "train a.tpl train.txt n.mtl --epochs 3": "--epochs: --max-iter limits the number of passes",
    "train a.tpl train.txt -o n.mtl": "No such option: -o: the file to write is an argument without option",
    "train a.tpl train.txt": "; is an argument missing? --force overwrites it\n",
    "predict m.mtl -o": "Option '-o' requires an argument",
    "train train.txt n.mtl --method auto --folds 2 -o x": "No such option: -o",
    "tune a.tpl train.txt --method pmtl -p 0.5": "p must be",
    "tune a.tpl train.txt --method mtl,fly": "unknown method 'fly': expected one of mtl, ",
    "tune a.tpl train.txt --folds 2 --valid valid.txt": "--valid, --folds: expected one of them",
    "tune a.tpl train.txt --line-search": "--line-search is for --solver cutting-plane",
    "tune a.tpl train.txt -o train.txt": f"train.txt: {SAME_FILE}",
    "tune a.tpl train.txt -o no/m.mtl": "the folder",
    "tune a.tpl train.txt --out train.txt": "train.txt: cannot write",
    "tune a.tpl train.txt --valid missing.txt": "missing.txt",
}  # fmt: skip

INPUTS = [
    ("m.mtl --partial", "Ana N O\n\nPaz N X\n", "standard input, line 3: expected a label in the last column"),
    ("m.mtl --partial", "Ana N\n", "standard input, line 1: expected 3 columns, got 2"),
    ("m.mtl --partial --forbid O>I-PER", "\nAna N O\n\nPaz N O\nAna N I-PER\n",
     "standard input, line 4: the sentence that begins here has no labelling"),
    ("m.mtl --forbid *> --nbest 2", "Ana N\n", "line 1: the sentence that begins here has no labelling"),
    ("m.mtl", "a N\n\nb N c d\n", "standard input, line 3: expected 2 columns"),
    ("k.mtl", "casa\n\ncome N\n", "standard input, line 3: "),
    ("k.mtl --partial", "casa N\n\ncome X\n", "standard input, line 3: expected a label in the last column"),
]  # fmt: skip
"""Options of predict, its input and what is said."""


def training(arguments):
    templates, data, *options = arguments.split()
    return " ".join(["train", templates, data, "n.mtl -q", *options])


CASES = [
    *((training(arguments), b"", said) for arguments, said in TRAINING.items()),
    *((f"train a.tpl train.txt {target} -q", b"", said) for target, said in TARGETS.items()),
    *((command, b"", said) for command, said in COMMANDS.items()),
    *((f"predict {options} -o old.txt", text.encode(), said) for options, text, said in INPUTS),
]


@pytest.fixture(scope="module")
def folder(made, tmp_path_factory):
    """The shared folder with odd files; no test changes it."""
    folder = shutil.copytree(made, tmp_path_factory.mktemp("errors") / "here")
    for name, content in {**ODD_FILES, "old.txt": b"an old\tO\n"}.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


@pytest.mark.parametrize(("command", "stdin", "said"), CASES, ids=[command for command, *_ in CASES])
def test_errors_are_one_sentence_and_change_nothing(run, folder, monkeypatch, command, stdin, said):
    monkeypatch.chdir(folder)
    monkeypatch.setattr("mtlstruct.cli.engine.find_spec", lambda name: object())  # as if ray were there
    before = {path: path.read_bytes() for path in folder.rglob("[!.]*") if path.is_file()}
    run(command, stdin=stdin).rejected(said)
    assert {path: path.read_bytes() for path in folder.rglob("[!.]*") if path.is_file()} == before
