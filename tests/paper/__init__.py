"""The equations, algorithms and appendices of the paper, and what every method must keep.

The appendices beyond A report numbers, settings and rivals, and are tested where these lie:

    Appendix B, data statistics           data_scripts/test_wmt6.py, data_scripts/test_ted8.py
    Appendix C, hyper-parameters          library/test_published.py
    Appendix D, baselines                 library/test_samplers_static.py, test_lssd.py, test_chi_ibr.py, test_ccl_m.py
    Appendix E, BLEU of each language     lessons/test_paper_tables.py
    Appendix F, the effect of alpha       lessons/test_checks_08.py
    Appendix G, other variants            test_eq05_06_strategies.py (Dynamic-MD), library/test_auxiliary.py (LSMD)
"""
