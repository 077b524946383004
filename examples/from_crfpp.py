"""A CRF++ project moved over in five lines: its template file, its data, a labelled file back."""

from pathlib import Path

from mtlstruct import SequenceLabeler
from mtlstruct.samples import recipes as demo

# What the project has: a template file, and data in columns. (Here they are written first.)
Path("template").write_text("U00:%x[-1,0]\nU01:%x[0,0]\nU02:%x[1,0]\nU03:%x[-1,2]/%x[0,2]\nU04:%x[0,3]\nB\n")
for name, lines in zip(("train.data", "test.data"), demo.split(demo.bundled()), strict=True):
    Path(name).write_text(demo.column_file(lines, seed=1))

# crf_learn template train.data model && crf_test -m model test.data
tagger = SequenceLabeler(templates="template")
tagger.fit("train.data")
print(f"F1 {tagger.score('test.data'):.2f}")
print(tagger.predict("test.data")[0])
tagger.save(
    "model.mtl"
)  # and `mtlstruct predict model.mtl test.data`, `mtlstruct export model.mtl model.txt`
