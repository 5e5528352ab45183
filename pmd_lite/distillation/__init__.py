"""What to distil, from whom, how much: losses, actions on alpha, the search, and the strategies."""
