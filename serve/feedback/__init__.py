"""Feedback that is no review: the same file again, the next message of a chat, what became of the business.

signals.py   writes signals in the caller's transaction    reupload.py  the same file again
messages.py  the next message of a conversation             outcomes.py  business outcomes: for the guard, never a gradient
"""
