"""Models from and for other programs: Marian checkpoints in, Hugging Face and CTranslate2 out."""
