"""Everything that makes a corpus: one script for each real one (see ../README.md), and invented languages in toy/."""
