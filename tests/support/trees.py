"""Small dependency trees in CoNLL-X, with and without arc labels, and templates for them."""

SENTENCES = [
    "the/D/2 cat/N/3 sleeps/V/0 ././3",
    "a/D/2 dog/N/3 sees/V/0 the/D/5 cat/N/3 ././3",
    "dogs/N/2 run/V/0 home/A/2 ././2",
    "the/D/3 old/J/3 man/N/4 reads/V/0 a/D/7 new/J/7 book/N/4 ././4",
    "cats/N/2 like/V/0 the/D/4 dog/N/2 ././2",
    "a/D/2 man/N/3 runs/V/0 ././3",
]
ARC_TEMPLATES = """\
A0:%x[h,FORM]/%x[m,FORM]
A1:%x[h,POSTAG]/%x[m,POSTAG]
A2:%x[h,POSTAG]/%x[m,POSTAG]/%direction[h,m]/%distance[h,m]
A3:%x[m-1,POSTAG]/%x[m,POSTAG]/%x[h,POSTAG]
A4:%x[h,POSTAG]/%x[b,POSTAG]/%x[m,POSTAG]
"""
RELATIONS = {"D": "det", "J": "mod", "A": "adv", "V": "root", ".": "punct"}
"""The arc label of each tag; nouns are subjects or objects."""


def conll(sentences: list[str], *, heads: bool = True) -> str:
    """Return sentences of form/tag/head in CoNLL-X; without `heads` the column is empty."""
    lines = []
    for number, sentence in enumerate(sentences):
        lines.append(f"# sentence {number}")
        for token, cell in enumerate(sentence.split(), 1):
            form, tag, head = cell.split("/")
            head = head if heads else "_"
            lines.append(f"{token}\t{form}\t_\t{tag}\t{tag}\t_\t{head}\trel\t_\tnote={token}")
        lines.append("")
    return "".join(line + "\n" for line in lines)


def _labelled(text: str) -> str:
    """Return trees with arc labels that follow from tag and direction: nouns before their head are subjects."""
    lines = []
    for line in text.split("\n"):
        cells = line.split("\t")
        if len(cells) == 10:
            noun = "subj" if int(cells[0]) < int(cells[6]) else "obj"
            cells[7] = RELATIONS.get(cells[4], noun)
        lines.append("\t".join(cells))
    return "\n".join(lines)


LABELLED_TREES = _labelled(conll(SENTENCES))
