"""Algorithm 1 (trainer), Algorithm 2 (trial), and what keeps a run whole: learner, probe, snapshot, run directory."""
