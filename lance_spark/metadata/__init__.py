"""The metadata of one version (manifest, fragments, transactions, row ids, deletion files) as values and as bytes.

In: bytes of manifests, transactions and deletion files. Out: frozen values such as `Manifest` and `Fragment`, and the same bytes.
What it does not know in a message is kept and written again. It opens no data file. Begin with `manifest.py` and `fragment.py`.
"""
