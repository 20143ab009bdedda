"""Parser: tokens to a syntax tree, by recursive descent over cel-spec's grammar.

Mirrors cel-go's parser with optional syntax and back-quoted selectors. Differs: after the first
syntax error nothing more is looked for, and the words of syntax errors are this parser's own.
"""

from __future__ import annotations

from kscheduler.cel import macros
from kscheduler.cel.errors import CompileError, Issue, issues_text
from kscheduler.cel.lexer import Token, tokens_of
from kscheduler.cel.literals import LiteralError, read_literal
from kscheduler.cel.syntax import (
    Call,
    Entry,
    Expr,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Message,
    Select,
)

MAX_DEPTH = 250
MAX_CODE_POINTS = 100_000
RESERVED = frozenset(
    (
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let"),
        *("loop", "package", "namespace", "return", "var", "void", "while"),
    )
)
RELATIONS = {
    "<": "_<_",
    "<=": "_<=_",
    ">=": "_>=_",
    ">": "_>_",
    "==": "_==_",
    "!=": "_!=_",
    "in": "@in",
}
SUMS = {"+": "_+_", "-": "_-_"}
PRODUCTS = {"*": "_*_", "/": "_/_", "%": "_%_"}
LITERAL_KINDS = frozenset(("int", "uint", "float", "string", "bytes", "true", "false", "null"))


def parse(expression: str) -> Expr:
    """The expression's syntax tree with macros written out; raises CompileError."""
    if len(expression) > MAX_CODE_POINTS:
        size = f"size: {len(expression)}, limit {MAX_CODE_POINTS}"
        raise refusal(expression, [Issue(-1, f"expression code point size exceeds limit: {size}")])
    tokens, issues = tokens_of(expression)
    parser = _Parser(tokens, issues)
    try:
        root = parser.whole()
    except _SyntaxError as error:
        issues.append(error.issue)
        raise refusal(expression, issues) from None
    if not issues and root.height > MAX_DEPTH:
        issues.append(Issue(-1, "max recursion depth exceeded"))
    if issues:
        raise refusal(expression, issues)
    return root


def refusal(expression: str, issues: list[Issue]) -> CompileError:
    """The error for an expression with these issues."""
    return CompileError(f"compilation failed: {issues_text(expression, issues)}")


class _SyntaxError(Exception):
    """Raised at the first token that does not fit."""

    def __init__(self, issue: Issue) -> None:
        super().__init__(issue.message)
        self.issue = issue


class _Parser:
    """Tokens with a position; each method reads one rule of the grammar.

    A node's height is the longest chain of operators, selections, calls and indices below it.
    """

    def __init__(self, tokens: list[Token], issues: list[Issue]) -> None:
        self.tokens = tokens
        self.issues = issues
        self.position = 0
        self.depth = 0

    def whole(self) -> Expr:
        root = self.expr()
        if self.kind != "<EOF>":
            raise self.unexpected("<EOF>")
        return root

    @property
    def kind(self) -> str:
        return self.tokens[self.position].kind

    def take(self) -> Token:
        token = self.tokens[self.position]
        if token.kind != "<EOF>":
            self.position += 1
        return token

    def expect(self, kind: str) -> Token:
        if self.kind != kind:
            raise self.unexpected(f"'{kind}'" if kind != "ident" else "IDENTIFIER")
        return self.take()

    def skip(self, kind: str) -> bool:
        if self.kind == kind:
            self.position += 1
            return True
        return False

    def unexpected(self, wanted: str) -> _SyntaxError:
        token = self.tokens[self.position]
        found = token.text if token.kind == "<EOF>" else f"'{token.text}'"
        text = f"Syntax error: mismatched input {found} expecting {wanted}"
        return _SyntaxError(Issue(token.offset, text))

    def expr(self) -> Expr:
        # Descent takes about ten Python frames per level, so this limit also bounds the stack.
        self.depth += 1
        if self.depth > MAX_DEPTH:
            limit = f"expression recursion limit exceeded: {MAX_DEPTH}"
            raise _SyntaxError(Issue(-1, limit))
        condition = self.logic("||", "_||_")
        if self.kind == "?":
            offset = self.take().offset
            truthy = self.logic("||", "_||_")
            self.expect(":")
            falsy = self.expr()
            condition = self.call(offset, "_?_:_", None, [condition, truthy, falsy])
        self.depth -= 1
        return condition

    def logic(self, operator: str, function: str) -> Expr:
        below = self.relation if operator == "&&" else self.conjunction
        first = below()
        if self.kind != operator:
            return first
        terms = [first]
        offset = self.tokens[self.position].offset
        while self.skip(operator):
            terms.append(below())
        # One call with all terms: evaluation and checking are the same as for nested pairs.
        call = Call(offset, function, None, terms)
        call.height = max(term.height for term in terms)
        return call

    def conjunction(self) -> Expr:
        return self.logic("&&", "_&&_")

    def relation(self) -> Expr:
        left = self.sum()
        while (function := RELATIONS.get(self.kind)) is not None:
            offset = self.take().offset
            left = self.call(offset, function, None, [left, self.sum()])
        return left

    def sum(self) -> Expr:
        left = self.product()
        while (function := SUMS.get(self.kind)) is not None:
            offset = self.take().offset
            left = self.call(offset, function, None, [left, self.product()])
        return left

    def product(self) -> Expr:
        left = self.unary()
        while (function := PRODUCTS.get(self.kind)) is not None:
            offset = self.take().offset
            left = self.call(offset, function, None, [left, self.unary()])
        return left

    def unary(self) -> Expr:
        operator = self.kind
        if operator not in ("!", "-"):
            return self.member()
        first, count = self.position, 0
        while self.kind == operator:
            # A single minus before a number belongs to the literal.
            following = self.tokens[self.position + 1].kind
            if operator == "-" and count == 0 and following in ("int", "float"):
                break
            self.take()
            count += 1
        operand = self.member()
        if count % 2 == 0:
            return operand
        function = "!_" if operator == "!" else "-_"
        call = Call(self.tokens[first].offset, function, None, [operand])
        call.height = operand.height
        return call

    def member(self) -> Expr:
        operand = self.primary()
        while True:
            if self.kind == ".":
                dot = self.take().offset
                if self.skip("?"):
                    name = self.field_name()
                    field = Literal(self.tokens[self.position - 1].offset, name)
                    operand = self.call(dot, "_?._", None, [operand, field])
                    continue
                if self.kind == "ident" and self.tokens[self.position + 1].kind == "(":
                    function = self.take().text
                    opening = self.take().offset
                    operand = self.call(opening, function, operand, self.arguments())
                    continue
                selected = Select(dot, operand, self.field_name())
                selected.height = operand.height + 1
                operand = selected
            elif self.kind == "[":
                offset = self.take().offset
                function = "_[?_]" if self.skip("?") else "_[_]"
                index = self.expr()
                self.expect("]")
                operand = self.call(offset, function, None, [operand, index])
            else:
                return operand

    def field_name(self) -> str:
        if self.kind == "quoted":
            return self.take().text[1:-1]
        return self.expect("ident").text

    def primary(self) -> Expr:
        token = self.tokens[self.position]
        if token.kind in LITERAL_KINDS or token.kind == "-":
            return self.literal()
        if token.kind == "(":
            self.take()
            inner = self.expr()
            self.expect(")")
            return inner
        if token.kind == "[":
            return self.list_literal()
        if token.kind == "{":
            return self.map_literal()
        if token.kind in ("ident", "."):
            return self.name()
        wanted = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, "
        raise self.unexpected(wanted + "NUM_UINT, STRING, BYTES, IDENTIFIER}")

    def literal(self) -> Expr:
        token = self.take()
        text = token.text
        kind = token.kind
        if kind == "-":
            number = self.take()
            if number.kind not in ("int", "float"):
                self.position -= 1
                raise self.unexpected("{NUM_FLOAT, NUM_INT}")
            kind, text = number.kind, "-" + number.text
        try:
            return Literal(token.offset, read_literal(kind, text))
        except LiteralError as error:
            self.issues.append(Issue(token.offset, str(error)))
            return Literal(token.offset, None)

    def list_literal(self) -> Expr:
        offset = self.take().offset
        elements: list[Expr] = []
        optional = set()
        while self.kind != "]":
            if self.kind == "," and (elements or self.tokens[self.position + 1].kind == "]"):
                self.take()
                break
            if self.skip("?"):
                optional.add(len(elements))
            elements.append(self.expr())
            if self.kind != "]" and not self.comma_before("]"):
                break
        self.expect("]")
        node = ListLiteral(offset, elements, frozenset(optional))
        node.height = max((e.height for e in elements), default=0)
        return node

    def comma_before(self, closing: str) -> bool:
        """Whether another element follows a comma; a trailing comma is left out."""
        if self.kind != ",":
            raise self.unexpected(f"'{closing}'")
        self.take()
        return self.kind != closing

    def map_literal(self) -> Expr:
        offset = self.take().offset
        entries: list[Entry] = []
        if self.kind == "," and self.tokens[self.position + 1].kind == "}":
            self.take()
        while self.kind != "}":
            optional = self.skip("?")
            key = self.expr()
            colon = self.expect(":").offset
            entries.append(Entry(colon, key, self.expr(), optional))
            if self.kind != "}" and not self.comma_before("}"):
                break
        self.expect("}")
        node = MapLiteral(offset, entries)
        node.height = max((max(e.key.height, e.value.height) for e in entries), default=0)
        return node

    def name(self) -> Expr:
        start = self.tokens[self.position].offset
        leading = "." if self.skip(".") else ""
        if (message := self.message_name()) is not None:
            return self.message(leading + message)
        token = self.expect("ident")
        if token.text in RESERVED:
            self.issues.append(Issue(start, f"reserved identifier: {token.text}"))
        if self.kind == "(":
            opening = self.take().offset
            arguments = self.arguments()
            return self.call(opening, leading + token.text, None, arguments, nesting=0)
        return Ident(token.offset, leading + token.text)

    def message_name(self) -> str | None:
        """The qualified name before a brace, read past; None if no message begins here."""
        position = self.position
        names = []
        while self.tokens[position].kind == "ident":
            names.append(self.tokens[position].text)
            following = self.tokens[position + 1].kind
            if following == "{":
                self.position = position + 1
                return ".".join(names)
            if following != ".":
                return None
            position += 2
        return None

    def message(self, type_name: str) -> Expr:
        offset = self.take().offset
        fields: list[Entry] = []
        if self.kind == "," and self.tokens[self.position + 1].kind == "}":
            self.take()
        while self.kind != "}":
            optional = self.skip("?")
            name = self.field_name()
            colon = self.expect(":").offset
            fields.append(Entry(colon, name, self.expr(), optional))
            if self.kind != "}" and not self.comma_before("}"):
                break
        self.expect("}")
        node = Message(offset, type_name, fields)
        node.height = max((f.value.height for f in fields), default=0)
        return node

    def arguments(self) -> list[Expr]:
        arguments: list[Expr] = []
        if self.skip(")"):
            return arguments
        arguments.append(self.expr())
        while self.skip(","):
            arguments.append(self.expr())
        self.expect(")")
        return arguments

    def call(
        self, offset: int, function: str, target: Expr | None, args: list[Expr], nesting: int = 1
    ) -> Expr:
        height = max((a.height for a in args), default=0)
        if target is not None:
            height = max(height, target.height)
        expand = macros.find(function, len(args), receiver=target is not None)
        node: Expr | None = None
        if expand is not None:
            try:
                node = expand(offset, target, args)
            except macros.MacroError as error:
                self.issues.append(error.issue)
                node = Ident(offset, "<error>")
        if node is None:
            node = Call(offset, function, target, args)
        node.height = height + nesting
        return node
