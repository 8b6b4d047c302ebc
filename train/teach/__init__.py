"""Teacher annotation: reasoning for labelled pages, in two ways of looking, kept only where it ends in the truth.

pages.py         labelled pages, from our data sets or anybody's
helpers.py       what the teacher is told and the student never sees (data in prompts/)
annotate.py      asking, several pages at a time, with retries, resume and a count of the cost
check.py         does the answer agree with the label?
journal.py       the append-only record
scripted.py      a teacher of fixed sentences, for where no model can run
local_server.py  a small chat server that speaks the real protocol
"""
