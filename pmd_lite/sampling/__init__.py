"""Which pair comes next: samplers (probabilities over pairs) and the schedule that draws from them."""
