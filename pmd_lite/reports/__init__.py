"""Pages on a run or a corpus: the dashboard and the data sheet."""
