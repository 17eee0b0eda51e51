"""The common form of answers, as the questions use it."""

from fgrad.graph.answer import Answer as Answer, Table as Table
