"""Reads Spark SQL of one row, with the precedence of Spark's own grammar.

Source: SqlBaseParser.g4 of Spark: NOT < AND < OR; below a predicate, comparisons, then `+ - ||`,
then `* / % DIV`, then signs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lakeport.loading.expressions.syntax import (
    Between,
    Case,
    Cast,
    Function,
    In,
    Infix,
    Is,
    Item,
    Like,
    Name,
    Null,
    Number,
    Prefix,
    Query,
    Star,
    Syntax,
    Text,
    Truth,
    Typed,
)
from lakeport.loading.expressions.tokens import Beyond, Token, tokens

__all__ = ["condition_of", "query_of"]

_WORDS: Final = frozenset(
    """
    all and anti any array as asc between both by case cast char_length collate cross cube current
    date delete desc distinct div else end escape except exists extract false fetch filter for from
    full group having hint ilike in inner insert intersect interval into is join lateral leading
    left like limit map minus named_struct natural not null offset on or order outer over overlay
    pivot position qualify range regexp right rlike row rows select semi set similar some struct
    substring table tablesample then timestamp timestamp_ltz timestamp_ntz to trailing trim true
    union unique unknown unpivot update user using values view when where window with within
    """.split()  # noqa: SIM905
)
"""Words with a part in Spark's grammar: none of them is read as a column or an alias."""
_COLUMNS: Final = frozenset(
    {"current", "date", "left", "position", "range", "right", "row", "rows"}
)
"""Those that columns are often called, and that mean a column where nothing follows."""
_CALLED: Final = frozenset({"char_length", "date", "left", "substring", "trim"})
"""Those that are functions with plain arguments, where a bracket follows."""
_COMPARISONS: Final = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<=>": "<=>"} | {
    sign: sign for sign in ("<", "<=", ">", ">=")
}
_SUMS: Final = {"+": "+", "-": "-", "||": "||"}
_PRODUCTS: Final = {"*": "*", "/": "/", "%": "%", "div": "div"}
_EXTRACTED: Final = frozenset({"year", "quarter", "month", "day", "hour", "minute"})
_CURRENT: Final = ("current_", "local", "session_")


def query_of(sql: str, table: str) -> Query:
    """What a query on one table says.

    Raises:
        Beyond: it is not of this kind.
    """
    return _Parser(tokens(sql)).query(table)


def condition_of(text: str) -> Syntax:
    """What an expression says.

    Raises:
        Beyond: it is not of this kind.
    """
    parser = _Parser(tokens(text))
    found = parser.expression()
    parser.end()
    return found


class _Parser:
    def __init__(self, found: list[Token]) -> None:
        self._tokens = found
        self._at = 0

    # Tokens

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._next
        self._at += 1
        if token.kind == "end":
            raise Beyond
        return token

    def _took(self, *words: str) -> str:
        """The next word or sign, if it is one of these."""
        word = self._next.word
        if word and word in words:
            self._at += 1
            return word
        return ""

    def _need(self, *words: str) -> None:
        for word in words:
            if not self._took(word):
                raise Beyond

    def end(self) -> None:
        """See that nothing follows."""
        if self._next.kind != "end":
            raise Beyond

    # The query

    def query(self, table: str) -> Query:
        self._need("select")
        items = [self._item()]
        while self._took(","):
            items.append(self._item())
        self._need("from")
        if self._identifier().lower() != table:
            raise Beyond
        alias = self._alias() or table
        condition = self.expression() if self._took("where") else None
        self._took(";")
        self.end()
        return Query(tuple(items), alias, condition)

    def _item(self) -> Item | Star:
        if self._took("*"):
            return Star(without=self._without())
        if (star := self._star_of_table()) is not None:
            return star
        return Item(self.expression(), self._alias())

    def _star_of_table(self) -> Star | None:
        start = self._at
        if self._next.kind in ("word", "quoted"):
            table = self._take().text
            if self._took(".") and self._took("*"):
                return Star(table, self._without())
        self._at = start
        return None

    def _without(self) -> tuple[str, ...]:
        if not self._took("except"):
            return ()
        self._need("(")
        names = [self._identifier()]
        while self._took(","):
            names.append(self._identifier())
        self._need(")")
        return tuple(names)

    def _alias(self) -> str:
        if self._took("as"):
            return self._identifier()
        token = self._next
        if token.kind == "quoted" or (token.kind == "word" and token.word not in _WORDS):
            return self._take().text
        return ""

    def _identifier(self) -> str:
        token = self._take()
        if token.kind == "quoted":
            return token.text
        if token.kind != "word" or token.word in _WORDS - _COLUMNS:
            raise Beyond
        return token.text

    # Expressions, from what binds least

    def expression(self) -> Syntax:
        return self._chain({"or": "or"}, self._conjunction)

    def _conjunction(self) -> Syntax:
        return self._chain({"and": "and"}, self._negation)

    def _negation(self) -> Syntax:
        if self._took("not", "!"):
            return Prefix("not", self._negation())
        return self._predicate()

    def _predicate(self) -> Syntax:
        operand = self._comparison()
        if self._took("is"):
            negated = self._took("not")
            what = self._took("null", "true", "false")
            if not what:
                raise Beyond
            return _negated(Is(operand, what), negated)
        negated = self._took("not")
        if self._took("in"):
            return _negated(In(operand, self._listed()), negated)
        if self._took("between"):
            low = self._comparison()
            self._need("and")
            return _negated(Between(operand, low, self._comparison()), negated)
        if self._took("like"):
            pattern = self._take()
            if pattern.kind != "text" or self._next.word in ("escape", "||"):
                raise Beyond
            return _negated(Like(operand, pattern.text), negated)
        if self._took("rlike", "regexp"):
            pattern = self._take()
            if pattern.kind != "text" or self._next.word == "||":
                raise Beyond
            return _negated(Function("rlike", (operand, Text(pattern.text))), negated)
        if negated:
            raise Beyond
        return operand

    def _comparison(self) -> Syntax:
        return self._chain(_COMPARISONS, self._sum)

    def _sum(self) -> Syntax:
        return self._chain(_SUMS, self._product)

    def _product(self) -> Syntax:
        return self._chain(_PRODUCTS, self._signed)

    def _chain(self, operators: dict[str, str], operand: Callable[[], Syntax]) -> Syntax:
        found = operand()
        while sign := self._took(*operators):
            found = Infix(operators[sign], found, operand())
        return found

    def _signed(self) -> Syntax:
        sign = self._took("-", "+")
        if not sign:
            return self._cast_or_field()
        if sign == "-" and self._next.kind == "number":
            return Number(self._take().text, negative=True)
        return Prefix(sign, self._signed())

    def _cast_or_field(self) -> Syntax:
        found = self._primary()
        while self._took("::"):
            found = self._cast_of(found)
        return found

    def _primary(self) -> Syntax:
        token = self._take()
        if token.kind == "number":
            return Number(token.text)
        if token.kind == "text":
            return Text(token.text)
        if token.kind == "quoted":
            return self._name(token.text)
        if token.word == "(":
            inner = self.expression()
            self._need(")")
            return inner
        if token.kind != "word":
            raise Beyond
        return self._by_word(token)

    def _by_word(self, token: Token) -> Syntax:
        word = token.word
        if word in ("true", "false"):
            return Truth(word == "true")
        if word == "null":
            return Null()
        if word == "case":
            return self._case()
        if word == "cast" or (word == "try_cast" and self._next.word == "("):
            return self._cast()
        if word == "extract":
            return self._extract()
        if word in ("date", "timestamp") and self._next.kind == "text":
            return Typed(word, self._take().text)
        if self._next.word == "(":
            if word in _WORDS - _CALLED:
                raise Beyond
            return Function(word, self._listed())
        if word in _WORDS - _COLUMNS or word.startswith(_CURRENT):
            raise Beyond
        return self._name(token.text)

    def _name(self, first: str) -> Name:
        parts = [first]
        while self._took("."):
            token = self._take()
            if token.kind not in ("word", "quoted"):
                raise Beyond
            parts.append(token.text)
        return Name(tuple(parts))

    def _listed(self) -> tuple[Syntax, ...]:
        self._need("(")
        if self._took(")"):
            return ()
        items = [self.expression()]
        while self._took(","):
            items.append(self.expression())
        self._need(")")
        return tuple(items)

    def _cast(self) -> Syntax:
        self._need("(")
        operand = self.expression()
        self._need("as")
        found = self._cast_of(operand)
        self._need(")")
        return found

    def _extract(self) -> Syntax:
        self._need("(")
        part = self._take().word
        self._need("from")
        operand = self.expression()
        self._need(")")
        if part not in _EXTRACTED:
            raise Beyond
        return Function(part, (operand,))

    def _cast_of(self, operand: Syntax) -> Cast:
        type_, digits = self._take(), list[int]()
        if type_.kind != "word":
            raise Beyond
        if self._took("("):
            digits.append(self._digits())
            while self._took(","):
                digits.append(self._digits())
            self._need(")")
        return Cast(operand, type_.word, tuple(digits))

    def _digits(self) -> int:
        token = self._take()
        if token.kind != "number" or not token.text.isdigit():
            raise Beyond
        return int(token.text)

    def _case(self) -> Syntax:
        subject = None if self._next.word == "when" else self.expression()
        branches = []
        while self._took("when"):
            when = self.expression()
            self._need("then")
            branches.append(
                (when if subject is None else Infix("=", subject, when), self.expression())
            )
        otherwise = self.expression() if self._took("else") else Null()
        self._need("end")
        if not branches:
            raise Beyond
        return Case(tuple(branches), otherwise)


def _negated(found: Syntax, negated: str) -> Syntax:
    return Prefix("not", found) if negated else found
