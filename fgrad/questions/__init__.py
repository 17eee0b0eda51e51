"""Top floor of the core: questions to the graph of a function, and their answers.

One file a question.  Each takes the function and gives a function of its arguments, whose result is an ``Answer``.
Nothing below asks anything here, so that what nobody asks costs nothing.

It uses ``graph``, ``run``, ``record``, ``rules``, ``passes``, ``api``.
"""
