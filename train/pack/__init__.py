"""Packing burns the bridge: every helper prompt is dropped, and what remains is what serving will ask and the model shall answer.

burn.py    a row's texts, and the proof that nothing of the helpers stands in them
leaks.py   no page, value or form stands in two splits that should not share it
pack.py    labelled pages and annotations to folders of rows
tokens.py  a row's token ids, checked against serving's
"""
