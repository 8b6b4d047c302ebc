"""The desk: pages for people, in the same process as the API and behind the same door. Needs the extra ``ui``.

``mount(app)`` adds it to an application: ``/`` leads to ``/desk/zh/``, a Gradio page with a tab for each module of ``shell.TABS``
(English: ``/desk/en/``). Uploading and reviewing are elements of our own (``static/*.js``) that call ``/v1`` with the session's
cookie; other tabs are Gradio components whose handlers call the domain functions with ``Desk.actor(request)``.
"""

from __future__ import annotations

from certloop.serve.desk.doors import installed, mount

__all__ = ["installed", "mount"]
