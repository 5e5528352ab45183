"""Many runs side by side: how they are asked for, trained, read and stored."""
