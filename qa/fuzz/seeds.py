"""Small inputs that are right, one or more for each target: what mutations begin with."""

from __future__ import annotations

COLUMNS = "Ana N B-PER\nPaz N I-PER\n\nvive V O\nen P O\n"
ITEMS = "casa N\nperro N\ncome V\n"
SEGMENTED = "今天  天气 好\n\n我们\u3000去  北京\n"
CONLL = (
    "# text = the cat\n1\tthe\t_\tD\tD\t_\t2\tdet\t_\t_\n2-3\tcats\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "2\tcat\t_\tN\tN\tx=1|y\t3\tsubj\t_\t_\n3\tsleeps\t_\tV\tV\t_\t0\troot\t_\t_\n3.1\te\t_\t_\t_\t_\t_\t_\t_\t_\n"
)
DICTS = (
    '[{"word": "Ann", "title": true, "n": 0.5}, ["bias", "w=b"]]\n'
    '{"tokens": [{"in": ["a", "b"], "next": {"word": "is"}}, {"v": [1, 2.5]}], "labels": ["B-PER", "O"]}\n'
)
ITEM_DICTS = '{"word": "Ann"}\n{"tokens": [{"word": "Bo"}], "labels": ["x"]}\n'

OURS = (
    '# words\nU0:%x[0,0]\nU1:%x[-1,0]/%suffix[0,1,2]\nU2:%match[0,0,"^[a-z]+\\d*$|x"]\nU3:%x[@-1,"a b"]\n'
    'U4:%value[0,word]\nB\nB1:%in[0,0,"names"]\n'
)
ARCS = "A0:%x[h,FORM]/%x[m-1,pos]\nA1:%direction[h,m]/%distance[h,m]/%lower[l+1,0]\nA2:%x[b@2,POSTAG]/%position[b]\n"
CRFPP = "# Unigram\nU00:%x[-2,0]\nU01:%x[0,0]/%x[1,1]\n\nB\nnot a template\n"
WAPITI = '* # both\nu:wrd=%X[ 0,0]  # word\nu:%t[-1,0,"^\\u"]\nb:%m[@1,+1,"\\a*"]\n*:%M[+1,0,".?x$"]\n'
REGEXES = ("^[A-Z][a-z]+$|x*y?\0Oslo", "\\d+.\\p\0a12.5", "[^a-c\\s]*$\0abcabc x")

CRFPP_MODEL = (
    "version: 100\ncost-factor: 1\nmaxid: 10\nxsize: 1\n\nN\nV\n\nU00:%x[0,0]\nU01:%x[-1,0]/%x[0,0]\nB\n\n"
    "0 B\n4 U00:dogs\n6 U00:run\n8 U01:_B-1/dogs\n\n"
    "1.0\n-1.0\n0.5\n0\n2\n-2.0\n0.25\n1e-3\n3\n-4\n"
)
WAPITI_MODEL = (
    "#mdl#2#6\n#rdr#4/1/0\n11:u0:%x[ 0,0],\n24:u1 prev=%x[-1,1]/%x[0,0],\n11:*2:%x[+1,1],\n1:b,\n#qrk#2\n1:N,\n"
    "3:Vé,\n#qrk#6\n7:u0:dogs,\n6:u0:run,\n16:u1 prev=_x-1/run,\n4:*2:p,\n1:b,\n7:*2:_x+1,\n"
    "0=0x1p+0\n1=-0x1p-1\n3=0x1p-2\n5=0x1p+1\n9=0x1.8p-1\n12=0x1p-1\n"
)

LOG = (
    '{"event": "run", "command": ["train"], "options": {"c": 1.0}}\n'
    '{"event": "pass", "pass": 1, "objective": 3.0, "dual": 2.5, "gap": 0.5, "risk": 1.0, "seconds": 0.1}\n'
    '{"event": "summary", "objective": 2.9, "dual": 2.8, "passes": 1}\n'
)

TOKENS: dict[str, tuple[str, ...]] = {
    "columns": (" ", "\t", "\n\n", "\r\n", "\ufeff", "B-PER", "\0"),
    "items": (" ", "\t", "\n\n", "\r\n"),
    "segmented": ("  ", "\u3000", "\t", "\n", "𝄞"),
    "conll": ("\t_", "\n\n", "1\t", "2-3\t", "1.1\t", "#", "\t0\troot"),
    "dicts": (
        '{"tokens": [',
        '"labels": [',
        "NaN",
        "Infinity",
        "1e999",
        "1e300",
        "[[[[",
        '{"a":',
        "\\ud800",
        "null",
    ),
    "templates": (
        "%x[0,0]",
        '%match[0,0,"',
        "%value[",
        "%in[",
        "U",
        "B",
        "A",
        "@",
        "\\",
        '"]',
        "h,m]",
        "b@2",
        "|$|",
    ),
    "crfpp": ("%x[", "U", "B", "#", "-9", "]"),
    "wapiti": ("%x[", "%t[", "%m[", "%X", "*", "b", "u", "#", '"]', "@"),
    "regex": ("|$|", "^", "$", "[^", "-z]", "\\a", "\\D", "*", "+", "?", "\0"),
    "archive": ("PK\x03\x04", "PK\x01\x02", "PK\x05\x06", "PK\x06\x06", "model.json", ".npy"),
    "import-crfpp": ("maxid: ", "xsize: ", "\n\n", "U00:", "%x[", "1e999", "_B-1", "B"),
    "import-wapiti": ("#mdl#2#", "#rdr#", "#qrk#", "0x1p+1023", "_x-#", "%x[-255,0]", ",\n", "*", "b"),
    "server": (
        '{"text": "',
        '{"columns": "',
        '{"rows": [[["',
        '"explain": 3',
        "[[[[",
        "\\ud800",
        "\n",
        "true",
    ),
}
"""Pieces that mutations may put in."""
