"""A new document type from a few filled scans: fields proposed, a folder for a person to check, pages, an evaluation, a release.

propose.py   what is printed alike on all scans is the form, what stands beside it is a value: title, labels, kinds
folder.py    the type's folder: type.toml, prompt.txt, a blank and a layout
leftover.py  what of the scan is still on the blank
path.py      the guided path: folder, synthetic pages, guidance learned on one half, evaluation on the other, release
"""
