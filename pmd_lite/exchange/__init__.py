"""Models from and for other programs: import Marian checkpoints, export to Hugging Face and CTranslate2."""
