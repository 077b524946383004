"""The paper's experiments: each table or figure is one small file of axes in `library/`.

    datasets  which corpus a file of the user's is, by name, place and checksum
    specs     library/*.toml: what is run (grids of rows and c) and what the paper printed
    plan      grids -> the studies to run; a setting that two tables want is one cell
    results   the cells, looked up by row and c, and the c that a row is shown at
    tables    ours beside the paper's: Markdown, CSV, LaTeX
    figures   time, sensitivity, weights, convergence
    claims    what the paper says in words: yes or no, with the figure
    pages     all of it as one page

Nothing here trains: `tuning` does, and the command `reproduce` puts the two together.
"""
