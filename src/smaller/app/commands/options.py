"""Arguments and options that several commands share, each with its line of help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

TablePath = Annotated[
    Path,
    typer.Argument(help="CSV, TSV, XLSX, Parquet, Feather/Arrow, NPZ or svmlight file (.gz, .zst), or - for stdin."),
]
Encoding = Annotated[str | None, typer.Option(help="Encoding of a text table; recognised if left out.")]
Header = Annotated[bool | None, typer.Option("--header/--no-header", help="Whether the first line names the columns.")]
Target = Annotated[str, typer.Option("--target", "-t", help="Column to predict.")]
Drop = Annotated[list[str] | None, typer.Option("--drop", help="Column to leave out; may be repeated.")]
Missing = Annotated[str, typer.Option(help="What to do with missing values: fill or refuse.")]
Rule = Annotated[str, typer.Option(help="Strength of smlr: 1se (sparser) or min (best score).")]
Seed = Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Of every random choice.")]
Threads = Annotated[int | None, typer.Option(min=1, max=1024, help="Threads to use; all cores if left out.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but results.")]
Group = Annotated[
    str | None,
    typer.Option("--group", help="Column whose rows belong together (a patient's visits); none: rows stand alone."),
]
Ids = Annotated[list[str] | None, typer.Option("--id", help="Column that names rows: no feature; may be repeated.")]
Order = Annotated[str | None, typer.Option("--order", help="Column of times: the future is predicted from the past.")]
UsedFeature = Annotated[
    list[str] | None, typer.Option("--feature", help="Column to use although it looks like an identifier.")
]
Always = Annotated[
    str | None, typer.Option(help="Columns that are in the model in any case, without a penalty: age,sex.")
]
MostFeatures = Annotated[int | None, typer.Option("--features", min=1, help="The most features that smlr may use.")]
ClassWeight = Annotated[
    str | None, typer.Option(help="balanced: every class counts the same, however rare, also in the decisions.")
]
CostsPath = Annotated[
    Path | None, typer.Option("--costs", help="Table of what mistakes cost: a row a true class, a column a decision.")
]
Positive = Annotated[str | None, typer.Option(help="Of two classes the one looked for: its sensitivity is told.")]
Specificity = Annotated[float, typer.Option(help="Share of the other class that must not be taken for it.")]
Repeats = Annotated[
    int | None, typer.Option(min=1, max=100, help="Times cross-validation is done; by table size if left out.")
]
Grades = Annotated[str | None, typer.Option(help="Grades of the target from lowest to highest: low,middle,high.")]
DropRare = Annotated[
    int | None, typer.Option("--drop-rare", min=2, help="Leave out the rows of classes with fewer rows than this.")
]
MergeRare = Annotated[
    int | None, typer.Option("--merge-rare", min=2, help="Make one class, other, of those with fewer rows than this.")
]
Relax = Annotated[
    bool, typer.Option("--relax/--no-relax", help="Take the shrinkage out of the probabilities of smlr and sbmlr.")
]
