"""What a run will take, before it begins: how much it will compute (`counting`), and how fast that goes (`timing`)."""
