"""Type checker: gives every node a type and every call the overloads that fit.

Mirrors cel-go's checker with cross-type numeric comparison.
All problems are collected; what fails becomes the error type, which fits everywhere.
"""

from __future__ import annotations

from kscheduler.cel import types
from kscheduler.cel.declarations import (
    DEVICE_FIELDS,
    FUNCTIONS,
    MESSAGE_FIELDS,
    TYPE_NAMES,
    Overload,
)
from kscheduler.cel.errors import Issue
from kscheduler.cel.syntax import (
    VISITED_AS_COPIES,
    Call,
    Comprehension,
    Entry,
    Expr,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Message,
    Select,
    Variable,
)
from kscheduler.cel.types import Kind, Substitutions, Type
from kscheduler.cel.values import runtime_type

LOGIC = ("_&&_", "_||_")


class Checker:
    """One check of one expression: scopes, substitutions and the issues found."""

    def __init__(self) -> None:
        self.substitutions = Substitutions()
        self.issues: list[Issue] = []
        self.scopes: list[dict[str, Variable]] = []
        self.slots = 0
        self.visited = 0
        self.fresh = 0

    def report(self, offset: int, message: str) -> None:
        self.issues.append(Issue(offset, message))

    def check(self, node: Expr) -> Type:
        """Checks the node and what is below it; the type is also kept on the node."""
        self.visited += 1
        if node.shared and node.type is not None and self.visited > VISITED_AS_COPIES:
            return node.type
        match node:
            case Literal():
                found = runtime_type(node.value)
            case Ident():
                found = self.ident(node)
            case Select():
                found = self.select(node)
            case Call():
                found = self.call(node)
            case ListLiteral():
                found = self.list_literal(node)
            case MapLiteral():
                found = self.map_literal(node)
            case Message():
                found = self.message(node)
            case Comprehension():
                found = self.comprehension(node)
        node.type = found
        return found

    def final_type(self, node: Expr) -> Type:
        """The node's type with what was found later, free variables as dyn."""
        assert node.type is not None
        return self.substitutions.substitute(node.type, free_to_dyn=True)

    def undeclared(self, offset: int, name: str) -> Type:
        self.report(offset, f"undeclared reference to '{name}' (in container '')")
        return types.ERROR

    def local(self, name: str) -> Variable | None:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def ident(self, node: Ident) -> Type:
        variable = self.local(node.name)
        if variable is not None:
            node.variable = variable
            return variable.type
        name = node.name.removeprefix(".")
        if name == "device":
            node.name = name
            return types.DEVICE
        if name in TYPE_NAMES:
            node.constant = TYPE_NAMES[name]
            return types.type_of(node.constant)
        return self.undeclared(node.offset, node.name)

    def qualified_name(self, node: Expr) -> str | None:
        names = []
        while isinstance(node, Select) and not node.test_only:
            names.append(node.name)
            node = node.operand
        if not isinstance(node, Ident):
            return None
        return ".".join([node.name, *reversed(names)])

    def select(self, node: Select) -> Type:
        name = None if node.test_only else self.qualified_name(node)
        if name is not None and self.local(name.split(".", 1)[0]) is None:
            found = TYPE_NAMES.get(name.removeprefix("."))
            if found is not None:
                node.constant = found
                return types.type_of(found)
            if name.removeprefix(".") == "google.protobuf.NullValue.NULL_VALUE":
                node.constant = 0
                return types.INT
        result = self.field(node.offset, node.operand, node.name, optional=False)
        if node.test_only:
            return types.BOOL
        return self.substitutions.substitute(result)

    def field(self, offset: int, operand: Expr, name: str, *, optional: bool) -> Type:
        operand_type = self.substitutions.substitute(self.check(operand))
        target = operand_type.parameters[0] if types.is_optional(operand_type) else operand_type
        result = types.ERROR
        if target.kind is Kind.MAP:
            result = target.parameters[1]
        elif target.kind is Kind.STRUCT:
            result = self.field_type(offset, target.name, name)
        elif target.kind is Kind.TYPE_PARAM:
            self.substitutions.assign([(types.DYN, target)])
            result = types.DYN
        else:
            if not types.is_dyn(target) and target.kind is not Kind.ERROR:
                self.report(offset, f"type '{target.text}' does not support field selection")
            result = types.DYN
        if optional or types.is_optional(operand_type):
            return types.optional_of(result)
        return result

    def field_type(self, offset: int, struct: str, name: str) -> Type:
        if struct == "kubernetes.DRADevice":
            fields = DEVICE_FIELDS
        elif struct in MESSAGE_FIELDS:
            fields = MESSAGE_FIELDS[struct]
        else:
            self.report(offset, f"unexpected failed resolution of '{struct}'")
            return types.ERROR
        if name not in fields:
            self.report(offset, f"undefined field '{name}'")
            return types.ERROR
        return fields[name]

    def call(self, node: Call) -> Type:
        if node.function == "_?._":
            field = node.args[1]
            assert isinstance(field, Literal)
            field.type = types.STRING
            result = self.field(node.offset, node.args[0], field.value, optional=True)
            node.overloads = ("select_optional_field",)
            return self.substitutions.substitute(result)
        for argument in node.args:
            self.check(argument)
        if node.target is None:
            overloads = FUNCTIONS.get(node.function.removeprefix("."))
            if overloads is None:
                return self.undeclared(node.offset, node.function)
            node.function = node.function.removeprefix(".")
            return self.resolve(node, overloads)
        prefix = self.qualified_name(node.target)
        if prefix is not None:
            qualified = f"{prefix}.{node.function}".removeprefix(".")
            if qualified in FUNCTIONS:
                node.function = qualified
                node.target = None
                return self.resolve(node, FUNCTIONS[qualified])
        self.check(node.target)
        overloads = FUNCTIONS.get(node.function)
        if overloads is None:
            return self.undeclared(node.offset, node.function)
        return self.resolve(node, overloads)

    def resolve(self, node: Call, overloads: tuple[Overload, ...]) -> Type:
        """The type of the result, with the overloads that fit kept on the node."""
        operands = node.args if node.target is None else [node.target, *node.args]
        given = [self._type(operand) for operand in operands]
        if node.function in LOGIC:
            return self.logic(node, given)
        result: Type | None = None
        fitting = []
        for overload in overloads:
            if overload.member is not (node.target is not None):
                continue
            if len(overload.parameters) != len(given):
                continue
            parameters, overload_result = self.instantiated(overload)
            if not self.substitutions.assign(list(zip(given, parameters, strict=True))):
                continue
            fitting.append(overload.id)
            substituted = self.substitutions.substitute(overload_result)
            if result is None:
                result = substituted
            elif not types.is_dyn(result) and substituted != result:
                result = types.DYN
        if result is None:
            shown = [self.substitutions.substitute(t, free_to_dyn=True).text for t in given]
            receiver = f"{shown.pop(0)}." if node.target is not None else ""
            signature = f"{receiver}({', '.join(shown)})"
            message = f"found no matching overload for '{node.function}' applied to '{signature}'"
            self.report(node.offset, message)
            return types.ERROR
        node.overloads = tuple(fitting)
        return result

    def _type(self, node: Expr) -> Type:
        assert node.type is not None
        return node.type

    def logic(self, node: Call, given: list[Type]) -> Type:
        failed = False
        for operand, found in zip(node.args, given, strict=True):
            if not self.substitutions.assign([(found, types.BOOL)]):
                self.mismatch(operand.offset, types.BOOL, found)
                failed = True
        node.overloads = ("logical_and" if node.function == "_&&_" else "logical_or",)
        return types.ERROR if failed else types.BOOL

    def instantiated(self, overload: Overload) -> tuple[tuple[Type, ...], Type]:
        """Parameters and result with a new variable for each type parameter."""
        if not overload.type_params:
            return overload.parameters, overload.result
        fresh = Substitutions({name: self.type_variable() for name in overload.type_params})
        parameters = tuple(fresh.substitute(p) for p in overload.parameters)
        return parameters, fresh.substitute(overload.result)

    def type_variable(self) -> Type:
        self.fresh += 1
        return types.param(f"_var{self.fresh - 1}")

    def mismatch(self, offset: int, expected: Type, found: Type) -> None:
        self.report(offset, f"expected type '{expected.text}' but found '{found.text}'")

    def element(self, node: Expr, *, optional: bool) -> Type:
        """The type an element adds to its aggregate; an optional one adds what it may hold."""
        found = self.check(node)
        if not optional:
            return found
        if types.is_optional(found):
            return found.parameters[0]
        if not types.is_dyn(found):
            self.mismatch(node.offset, types.optional_of(found), found)
        return found

    def join(self, previous: Type | None, current: Type) -> Type:
        if previous is None:
            return current
        if self.substitutions.assign([(previous, current)]):
            return types.most_general(previous, current)
        return types.DYN  # mixed elements are a matter of the validators

    def list_literal(self, node: ListLiteral) -> Type:
        joined: Type | None = None
        for index, element in enumerate(node.elements):
            found = self.element(element, optional=index in node.optional)
            joined = self.join(joined, found)
        return types.list_of(self.type_variable() if joined is None else joined)

    def map_literal(self, node: MapLiteral) -> Type:
        keys: Type | None = None
        values: Type | None = None
        for entry in node.entries:
            keys = self.join(keys, self.check(entry.key))
            found = self.element(entry.value, optional=entry.optional)
            values = self.join(values, found)
        if keys is None or values is None:
            keys = self.type_variable()
            values = self.type_variable()
        return types.map_of(keys, values)

    def message(self, node: Message) -> Type:
        name = node.type_name.removeprefix(".")
        found = TYPE_NAMES.get(name)
        if found is None:
            return self.undeclared(node.offset, node.type_name)
        node.type_name = name
        is_message = name in MESSAGE_FIELDS or found.kind is Kind.STRUCT
        if not is_message:
            self.report(node.offset, f"'{found.name}' is not a message type")
            found = types.ERROR
        node.type = found
        for entry in node.fields:
            self.message_field(name, entry)
        return found

    def message_field(self, struct: str, entry: Entry) -> None:
        found = self.element(entry.value, optional=entry.optional)
        wanted = self.field_type(entry.offset, struct, entry.key)
        if not self.substitutions.assign([(wanted, found)]):
            text = f"'{entry.key}' is '{wanted.text}' but provided type is '{found.text}'"
            self.report(entry.offset, f"expected type of field {text}")

    def declare(self, name: str, found: Type) -> Variable:
        variable = Variable(name, found, self.slots)
        self.slots += 1
        return variable

    def comprehension(self, node: Comprehension) -> Type:
        self.check(node.range)
        accumulator = self.declare(node.accu_var, self.check(node.init))
        accumulator.lazy = node.kind in ("bind", "collect")
        range_type = self.substitutions.substitute(self._type(node.range))
        self.scopes.append({node.accu_var: accumulator})
        first, second = self.iteration_types(node, range_type)
        iteration = self.declare(node.iter_var, first)
        scope = {node.iter_var: iteration}
        node.variables = [iteration, iteration, accumulator]
        if node.iter_var2 is not None:
            node.variables[1] = self.declare(node.iter_var2, second)
            scope[node.iter_var2] = node.variables[1]
        self.scopes.append(scope)
        self.expect(node.condition, types.BOOL)
        self.expect(node.step, node.variables[2].type)
        self.scopes.pop()
        result = self.check(node.result)
        self.scopes.pop()
        return self.substitutions.substitute(result)

    def expect(self, node: Expr, wanted: Type) -> None:
        found = self.check(node)
        if not self.substitutions.assign([(wanted, found)]):
            self.mismatch(node.offset, wanted, found)

    def iteration_types(self, node: Comprehension, range_type: Type) -> tuple[Type, Type]:
        """The types of the iteration variables over the range."""
        match range_type.kind:
            case Kind.LIST:
                element = range_type.parameters[0]
                return (types.INT, element) if node.iter_var2 else (element, element)
            case Kind.MAP:
                return range_type.parameters[0], range_type.parameters[1]
            case Kind.DYN | Kind.ERROR | Kind.TYPE_PARAM:
                self.substitutions.assign([(types.DYN, range_type)])
                return types.DYN, types.DYN
        rule = "cannot be range of a comprehension (must be list, map, or dynamic)"
        self.report(node.range.offset, f"expression of type '{range_type.text}' {rule}")
        return types.ERROR, types.ERROR
