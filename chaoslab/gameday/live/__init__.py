"""Live page of a game-day: many people watch a run, predict and note; operators act on it.

    journal ─► LivePage.see ─► stream: pictures and sentences ─► browsers (server-sent events)
    Inbox ◄── orders, with who gave them ◄── app ◄── access: cookie, origin, rate ◄── POST

The run does not notice it: the server has a thread of its own, which may die and is started again.
It needs starlette and uvicorn, the extra `chaoslab[gameday]`.
"""
