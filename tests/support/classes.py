"""Words with a class each, and templates for them."""

WORDS = "casa perro come corre libro bebe mesa lee gato mira"
CLASSES = "N N V V N V N V N V"
CLASS_TRAIN = (
    "".join(f"{w} {y}\n" for w, y in zip(WORDS.split(), CLASSES.split(), strict=True))
    + "\n\nalto A\nbajo A\n"
)
CLASS_TEMPLATES = "# affixes\nU0:%x[0,0]\nU1:%suffix[0,0,1]\nU2:%prefix[0,0,1]\n"
