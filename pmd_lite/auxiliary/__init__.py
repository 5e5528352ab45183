"""The auxiliary runs of a method: which ones it needs, how they are found or trained, and what is read from them."""

from pmd_lite.auxiliary.runs import Wanted, bilingual, bilingual_config, find_or_train, of_length, resources, wanted

__all__ = ["Wanted", "bilingual", "bilingual_config", "find_or_train", "of_length", "resources", "wanted"]
