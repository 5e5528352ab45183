"""Many runs side by side: asking for them, training them, reading and storing their results."""
