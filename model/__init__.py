"""The encoder-decoder transformer of Vaswani et al. (2017), and all that trains and runs it.

Axis letters used throughout: ``B`` batch, ``S`` source length, ``T`` target length, ``H`` heads,
``D`` = ``d_model``, ``K`` = ``d_k``, ``V`` = vocabulary size, ``Q`` and ``M`` the query and key
lengths of an attention map.
"""
