"""Tables, plots and HTML pages about models, trainings and grids.

May import: `tasks`, `tuning` and the layers below.
Start reading at `html_report`, `tables` and `plots`.
"""
